"""The `ide` tools: code is read and changed by path, line and symbol name. Modules load at first use."""
