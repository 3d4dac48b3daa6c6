"""Pure judgement: what may happen, what must not be shown. No file, process or network access."""
