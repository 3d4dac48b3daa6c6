"""Streams markdown to a terminal; what is printed is never redrawn."""
