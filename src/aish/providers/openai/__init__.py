"""The provider for any OpenAI-compatible endpoint."""
