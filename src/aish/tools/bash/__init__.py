"""The live shell: one persistent bash on a pty, for the person's lines and the model's. POSIX only; a leaf."""
