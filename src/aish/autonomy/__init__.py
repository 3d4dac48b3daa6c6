"""Autonomous work towards a goal: steps, halts, and the second opinion of another model."""
