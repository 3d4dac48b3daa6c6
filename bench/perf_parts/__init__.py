"""Fixed work whose instructions are counted by callgrind. See bench/perf_check.py."""
