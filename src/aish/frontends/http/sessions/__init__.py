"""Sessions, traces, runs, approvals, the live feed, and idempotent replay."""
