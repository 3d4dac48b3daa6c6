"""Runs tool calls: selection, dispatch, consent, execution."""
