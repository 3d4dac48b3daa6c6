"""Completion for the live bash by a forked side shell."""
