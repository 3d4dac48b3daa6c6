"""The Store port over PostgreSQL, for several machines. Begin reading at `store`. The driver is imported at the
first use."""
