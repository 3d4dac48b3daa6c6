"""The provider for Ollama's own API."""
