"""Child processes, pseudo-terminals and clocks: everything that starts or watches a process."""
