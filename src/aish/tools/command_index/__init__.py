"""Which program does what: an index of what this machine has, asked in everyday words."""
