"""What the model is told before the conversation: the system message, composed in a fixed order."""

from __future__ import annotations

BASE = "You are a helpful assistant. Answer briefly and plainly."


def compose_system(*parts: str) -> str:
    """Base first, then what the config, the preset and the request add; empty parts leave no trace."""
    return "\n\n".join(part.strip() for part in (BASE, *parts) if part.strip())
