"""Questions of the gate, proposed commands, and trust in a project, asked at the terminal."""
