"""An index of the installed programs that answers questions in everyday words."""
