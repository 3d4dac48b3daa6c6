"""The messages API in Anthropic's shape."""
