"""The server frontend: OpenAI's and Anthropic's APIs over the engine's events."""
