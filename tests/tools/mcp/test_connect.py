"""What the way in costs before anything is connected."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_client_loads_no_transport_and_no_formats_of_keys() -> None:
    code = "import sys, aish.tools.mcp.connect; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    late = {
        "httptools",
        "aish.net.http.client",
        "aish.process.child",
        "aish.safety.redaction.redactor",
        "aish.safety.redaction.secret_formats",
    }
    assert not late & set(done.stdout.split())
