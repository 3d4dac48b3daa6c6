"""Reads a line of shell: the parser, our own reader of plain lines, words and expansion."""
