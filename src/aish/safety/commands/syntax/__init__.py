"""Reads a shell line: the parser, our own reader of plain lines, words and expansion."""
