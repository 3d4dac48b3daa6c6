"""Colours code by syntax tree or by Pygments."""
