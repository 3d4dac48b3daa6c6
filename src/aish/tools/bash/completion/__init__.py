"""Completion from the live bash: a forked side shell that answers."""
