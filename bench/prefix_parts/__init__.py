"""The parts of `bench/prefix.py`: a real llama.cpp, and a proxy that records what it was sent."""
