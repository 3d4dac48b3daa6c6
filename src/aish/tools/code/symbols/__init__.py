"""Symbols in code: names, outlines and grammars."""
