"""The store in memory, for runs that keep nothing and for tests."""
