"""The line editor: completion, routing of a line, the prompt template."""
