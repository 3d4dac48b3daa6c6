"""What aish costs, beside its peers: `python -m bench`. See docs/benchmarks.md."""
