"""Frozen data that every layer shares: no I/O, no behaviour beyond small derivations."""
