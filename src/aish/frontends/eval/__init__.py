"""`aish eval`: asks models the cases of a suite, grades their calls, and compares models and modes."""
