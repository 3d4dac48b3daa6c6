"""Tools and the registry that names them."""
