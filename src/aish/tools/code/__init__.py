"""The IDE facade: code understood and changed by path, line and symbol text. Nothing here loads before it is used."""
