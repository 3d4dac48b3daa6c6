"""Traces and figures for others' tools, made from what is recorded. Off unless an endpoint is configured."""
