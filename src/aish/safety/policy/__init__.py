"""The gate: rules, lasting approvals, and the decision on tools and command lines."""
