"""What survives: the adapters of the Store port. `sqlite` keeps a file, `memory` forgets at the end."""
