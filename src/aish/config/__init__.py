"""Reads, merges and checks settings. No other package reads config files and the environment.

`load` loads all layers, `schema` defines the settings, `trust` accepts project files; `show`, `starter` and `reference`
print settings.
"""
