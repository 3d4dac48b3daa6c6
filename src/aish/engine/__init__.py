"""One loop, one gate: turn, dispatch, and what they stand on. Knows ports and data, no I/O."""
