"""How the adapter for tool calls is made: data, training, conversion. Not part of the package that is installed."""
