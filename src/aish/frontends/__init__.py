"""The frontends: they encode events and ask users. They contain no logic of their own and never import each other."""
