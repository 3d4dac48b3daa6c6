"""Pure decisions: what may happen, and what must not be shown. No access to files, processes or the network."""
