"""Backends that answer questions about code: an IDE over MCP, a language server, or the syntax tree."""
