"""The gate: rules, lasting approvals, and the judgement of tools and command lines."""
