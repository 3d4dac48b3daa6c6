"""The Python library: `from aish import Aish`. It is a frontend like the others, for programs instead of people."""
