"""Checkpoints of a workspace: its files by their hashes, in a private database."""
