"""Commands that look after aish itself: models, sessions, config, doctor."""
