"""Finds tool calls in the text of a model."""
