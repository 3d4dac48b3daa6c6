"""The web console: its files and the endpoints only it uses."""
