"""Agents: turns that answer a task of their own, with the instructions, model and tools of a definition."""
