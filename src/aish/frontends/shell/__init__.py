"""The shell frontend: one question from the command line, or a prompt."""
