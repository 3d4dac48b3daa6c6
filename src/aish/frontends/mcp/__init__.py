"""The MCP server: offers the tools of aish to other programs, over stdio and HTTP, behind the gate."""
