"""The adapters of the Store port: `sqlite` is a file, `postgres` serves several machines, `memory` ends with the
process."""
