"""Schemas of tools: simplified for a backend, and used to validate arguments."""
