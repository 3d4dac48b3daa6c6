"""The proof: shows that a line does no harm, and lists what it reads."""
