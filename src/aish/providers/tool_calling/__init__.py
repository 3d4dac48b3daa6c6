"""Tool calls on models and backends that have none of their own: three modes, one wrapper."""
