"""Finds secrets in text and JSON and replaces them."""
