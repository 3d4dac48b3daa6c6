"""The shell face: one question from the command line, or a prompt."""
