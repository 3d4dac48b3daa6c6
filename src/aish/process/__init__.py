"""Starts and watches processes: child processes, pseudo-terminals, liveness; and the clock."""
