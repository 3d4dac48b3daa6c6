"""Files of a workspace: contents, large files, links, and watchers for changes."""
