"""Repairs arguments of tool calls: lenient JSON, conversion to the schema's types, misspelt names."""
