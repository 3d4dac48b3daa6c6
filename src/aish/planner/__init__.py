"""Planning: a model writes a plan, the plan is checked and run step by step, and the model answers from the results."""
