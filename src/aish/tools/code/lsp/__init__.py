"""A client of language servers: one process for a root and a language, owned from start to end."""
