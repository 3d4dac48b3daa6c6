"""Durable runs of goals and plans: their owner, and the journal of intents and outcomes."""
