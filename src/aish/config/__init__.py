"""Settings: read, merged, checked, trusted. The only package that reads config files and the environment.

`load` is the way in, `schema` says what can be set, `trust` accepts project files; `show`, `starter` and `reference`
explain.
"""
