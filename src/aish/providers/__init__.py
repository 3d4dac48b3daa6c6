"""Backends that answer, behind one streaming port."""
