"""The SQL statements of the PostgreSQL store."""
