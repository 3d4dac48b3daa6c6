"""The provider that runs llama.cpp in a child process."""
