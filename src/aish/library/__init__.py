"""The Python library: `from aish import Aish`. It gives programs what frontends give people, and stands above `app`,
which builds the engine for it."""
