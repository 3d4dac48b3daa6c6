"""Draws replies on a terminal: frames, spinner, reasoning, styles."""
