"""Symbols in code: addresses, names, outlines, and queries to a language server."""
