"""The MCP server frontend: aish's tools for other programs, under aish's own gate, over stdio and HTTP."""
