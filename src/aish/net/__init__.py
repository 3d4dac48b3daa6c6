"""The transports: HTTP, lines, server-sent events, JSON-RPC. They know no model and no tool."""
