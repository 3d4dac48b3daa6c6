"""Counters for Prometheus and short time series for the console."""
