"""Changes of files: what is changed, and how it is applied."""
