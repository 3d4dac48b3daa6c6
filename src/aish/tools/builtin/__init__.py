"""Tools that come with aish."""
