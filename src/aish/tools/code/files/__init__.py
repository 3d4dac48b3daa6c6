"""Files of a workspace: content, large files, links, and a watcher for changes."""
