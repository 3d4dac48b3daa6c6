"""Schemas of tools: simplify_schema for a backend, and used to validate arguments."""
