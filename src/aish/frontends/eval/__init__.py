"""`aish eval`: cases asked of models, graded, counted, shown side by side."""
