"""The danger scan: finds danger anywhere in a line. It may only raise the level."""
