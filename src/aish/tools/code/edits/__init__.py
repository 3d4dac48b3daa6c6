"""Changing files: what is to be changed, and who carries it out."""
