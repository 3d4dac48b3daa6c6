"""The strict pass: proves that a line does no harm, and says what it reads."""
