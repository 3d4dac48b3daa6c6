"""One turn: the loop, its runner, recorder, budget and recovery."""
