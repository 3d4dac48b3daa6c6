"""Responses: request, output items, stream, storage, background and replay."""
