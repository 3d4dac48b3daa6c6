"""Chat completions: request, encoder, handler."""
