"""The APIs in OpenAI's shape: chat completions, responses, embeddings, models, conversations."""
