"""Composes what the model is sent: system message, history, window, token counts."""
