"""Keys, callers, spending per key, and signing in to the console."""
