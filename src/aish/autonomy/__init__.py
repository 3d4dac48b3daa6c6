"""Works towards a goal by itself: steps, halts, the second opinion of another model."""
