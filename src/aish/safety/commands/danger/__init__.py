"""The loose pass: finds danger anywhere in a line. It may only raise the verdict."""
