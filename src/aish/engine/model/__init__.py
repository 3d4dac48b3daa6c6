"""Calls a model: selection, the call and its stream, side calls, the cost ledger."""
