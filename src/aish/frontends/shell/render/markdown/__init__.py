"""Streams Markdown to a terminal. What is printed is never redrawn."""
