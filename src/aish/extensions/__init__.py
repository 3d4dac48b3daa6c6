"""Python extensions, as their authors write them and as the tool process runs them.

`definitions` has the decorators, `host` is the process that runs decorated functions. The other end of that process is
`tools/extensions`.
"""
