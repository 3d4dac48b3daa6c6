"""Starts a grandchild and prints both pids.

Arguments: `leave` exits at once and leaves the grandchild behind; `session` gives the grandchild a session of its own,
which then holds our pipes open; `stubborn` makes both ignore SIGTERM and the end of stdin.
"""

import os
import signal
import subprocess
import sys
import time

ways = sys.argv[1:]
if "stubborn" in ways:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
grandchild = subprocess.Popen(["sleep", "60"], start_new_session="session" in ways)
os.write(1, b"%d %d\n" % (os.getpid(), grandchild.pid))
if "leave" in ways:
    os._exit(0)
if "stubborn" not in ways:
    sys.stdin.read()
    os._exit(0)
time.sleep(60)
