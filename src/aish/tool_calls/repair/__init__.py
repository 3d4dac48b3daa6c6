"""Repairs arguments of tool calls: lenient JSON, coercion, misspelt names."""
