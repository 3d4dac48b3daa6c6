"""Planning before working: a plan is written, checked, followed step by step, and answered from."""
