"""Reads, merges and checks settings. No other package reads config files and the environment.

`load` loads all layers, `schema` defines the settings, `user_decisions` accepts project files; `reference` prints
settings.
"""
