"""The Store port over PostgreSQL, for several machines. `store` is the way in; the driver is imported at the first
use.
"""
