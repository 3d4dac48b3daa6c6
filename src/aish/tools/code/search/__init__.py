"""Text search in a workspace: with ripgrep if it is installed, else with our own walk."""
