"""The transports: HTTP, lines and events, child processes, clocks. They know no model and no tool."""
