"""Asks the user at the terminal: questions of the gate, proposed commands, trust in a project."""
