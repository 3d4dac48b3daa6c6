"""The tools, commands and hooks of Python extensions, as toolsets. Their code runs in the tool process."""
