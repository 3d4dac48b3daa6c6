"""Transports of the MCP client: HTTP and stdio."""
