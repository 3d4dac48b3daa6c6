"""Lets every model call tools: natively, constrained by a schema, or by a prompt."""
