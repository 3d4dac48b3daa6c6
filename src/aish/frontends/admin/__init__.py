"""Administrative commands: `aish models`, `sessions`, `config`, `mcp`, `memory`, `cost`, `safety` and `doctor`."""
