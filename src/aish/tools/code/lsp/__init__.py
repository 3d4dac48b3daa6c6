"""A language server client: one process for a root and a language."""
