"""The live shell: one persistent bash on a pty, for lines of the user and of the model. POSIX only."""
