"""Who answers questions about code: an IDE behind MCP, a language server of ours, or the syntax tree alone."""
