"""Finding text in a workspace: by ripgrep where it is installed, by our own walk elsewhere."""
