"""The `:` commands, one module a family."""
