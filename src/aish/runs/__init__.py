"""The durable journal of long work: who owns a run, what was intended, what came of it."""
