"""Transports: the HTTP client, lines, server-sent events, JSON-RPC. They know nothing of models or tools."""
