"""The frontends: they encode events and ask people. They hold no logic of their own and never import each other."""
