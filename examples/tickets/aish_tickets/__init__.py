"""An extension of aish with all parts: tools, a command, a hook, settings, a skill, a prompt file, instructions."""
