"""A language server over stdio that misbehaves on purpose: `python hostile_lsp.py MODE...`.

Each mode is a function `mode_*` below that changes the well-behaved server before it runs. Without a mode it knows one
kind of file, `.py`, whose every line holds one symbol.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]
NAME = {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 8}}


def read_message() -> Message | None:
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(length)) if length else None


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def send(message: Message) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))


def answer(message: Message, result: Any) -> None:
    send({"id": message["id"], "result": result})


def fail(message: Message, code: int, text: str) -> None:
    send({"id": message["id"], "error": {"code": code, "message": text}})


def push(uri: str, problems: list[Any], version: int | None = None) -> None:
    params = {"uri": uri, "diagnostics": problems} | ({} if version is None else {"version": version})
    send({"method": "textDocument/publishDiagnostics", "params": params})


def problem(text: str) -> Message:
    return {"range": NAME, "message": text, "severity": 1, "source": "hostile"}


class Server:
    def __init__(self) -> None:
        self.capabilities: Message = {
            "hoverProvider": True,
            "definitionProvider": True,
            "referencesProvider": True,
            "renameProvider": True,
            "documentFormattingProvider": True,
            "codeActionProvider": True,
            "positionEncoding": "utf-16",
        }
        self.texts: dict[str, str] = {}
        self.heard: list[str] = []
        self.notes = Path(os.environ["HOSTILE_NOTES"]) if "HOSTILE_NOTES" in os.environ else None
        self.on: dict[str, Callable[[Message], None]] = {
            "initialize": lambda m: answer(m, {"capabilities": self.capabilities}),
            "shutdown": lambda m: answer(m, None),
            "exit": lambda m: os._exit(0),
            "textDocument/didOpen": self.did_open,
            "textDocument/didChange": self.did_change,
            "textDocument/hover": lambda m: answer(m, {"contents": "a symbol"}),
            "textDocument/definition": lambda m: answer(m, {"uri": uri_of(m), "range": NAME}),
            "textDocument/references": lambda m: answer(m, [{"uri": uri_of(m), "range": NAME}]),
            "textDocument/rename": self.rename,
        }

    def did_open(self, message: Message) -> None:
        document = message["params"]["textDocument"]
        self.texts[document["uri"]] = document["text"]

    def did_change(self, message: Message) -> None:
        self.texts[uri_of(message)] = message["params"]["contentChanges"][0]["text"]

    def rename(self, message: Message) -> None:
        edit = {"range": NAME, "newText": message["params"]["newName"]}
        answer(message, {"changes": {uri_of(message): [edit]}})

    def note(self, text: str) -> None:
        if self.notes is not None:
            with self.notes.open("a") as file:
                file.write(f"{text}\n")

    def run(self) -> None:
        self.note(f"pid {os.getpid()}")
        while (message := read_message()) is not None:
            method = message.get("method", "")
            self.note(method or f"answer {json.dumps(message.get('result', message.get('error')))}")
            if method in self.on:
                self.on[method](message)
            elif "id" in message and method:
                fail(message, -32601, "unknown")


def uri_of(message: Message) -> str:
    return message["params"]["textDocument"]["uri"]


def later(seconds: float, do: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, do)
    timer.daemon = True
    timer.start()


# Starting and ending


def mode_exit_at_start(server: Server) -> None:
    sys.stderr.write("cannot find the left pad\n")
    sys.exit(3)


def mode_deaf(server: Server) -> None:
    """Says nothing, ever, and does not leave when told to."""
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server.note(f"pid {os.getpid()}")
    time.sleep(600)


def mode_wrapper(server: Server) -> None:
    """The one that is started is a wrapper; another does the work and holds the pipes."""
    child = subprocess.Popen([sys.executable, __file__, "stubborn"], stdin=sys.stdin, stdout=sys.stdout)
    sys.exit(child.wait())


def mode_stubborn(server: Server) -> None:
    server.on["exit"] = lambda m: None
    server.on["shutdown"] = lambda m: None


def mode_no_shutdown_params(server: Server) -> None:
    def shutdown(message: Message) -> None:
        if "params" in message:
            fail(message, -32602, "InvalidParams")
        else:
            server.note("shut down well")
            answer(message, None)

    server.on["shutdown"] = shutdown


def mode_talks_after_shutdown(server: Server) -> None:
    def shutdown(message: Message) -> None:
        answer(message, None)
        answer(message, None)
        push("file:///late.py", [problem("too late")])
        send({"id": 900, "method": "workspace/configuration", "params": {"items": [{}]}})

    server.on["shutdown"] = shutdown


def mode_writes_at_start(server: Server) -> None:
    """Somebody writes a file after it has read everything, and before it has said hello."""

    def initialize(message: Message) -> None:
        Path(os.environ["HOSTILE_WRITES"]).write_text("def name(): pass\n")
        answer(message, {"capabilities": server.capabilities})

    server.on["initialize"] = initialize


# In the middle of a question


def mode_crash_once(server: Server) -> None:
    """Dies in the first hover of its first life."""
    mark = Path(os.environ["HOSTILE_NOTES"] + ".crashed")

    def hover(message: Message) -> None:
        if not mark.exists():
            mark.touch()
            sys.stderr.write("panic: index out of range\n")
            sys.stderr.flush()
            os._exit(101)
        answer(message, {"contents": "alive again"})

    server.on["textDocument/hover"] = hover


def mode_crash_always(server: Server) -> None:
    server.on["textDocument/hover"] = lambda m: os._exit(101)


def mode_late(server: Server) -> None:
    """Answers when nobody waits any more; then the next question well."""
    hovers: list[Message] = []

    def hover(message: Message) -> None:
        hovers.append(message)
        if len(hovers) == 1:
            later(1.0, lambda: answer(message, {"contents": "the answer to another question"}))
        else:
            answer(message, {"contents": f"answer {len(hovers)}"})

    server.on["textDocument/hover"] = hover


def mode_mute_hover(server: Server) -> None:
    server.on["textDocument/hover"] = lambda m: None


def mode_strays(server: Server) -> None:
    def hover(message: Message) -> None:
        send({"id": 4711, "result": {"contents": "nobody asked"}})
        send({"id": "x", "result": None})
        write(b"Content-Length: 3\r\n\r\n???")
        write(b"X-Nothing: 1\r\n\r\n")
        answer(message, {"contents": "found between strays"})

    server.on["textDocument/hover"] = hover


def mode_wrong_length(server: Server) -> None:
    """Counts badly from its first hover on: from there its messages run into one another."""
    mark = Path(os.environ["HOSTILE_NOTES"] + ".mended") if os.environ.get("HOSTILE_MENDS") else None
    is_broken = mark is None or not mark.exists()

    def hover(message: Message) -> None:
        if not is_broken:
            answer(message, {"contents": "counts well"})
            return
        if mark is not None:
            mark.touch()
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"contents": "x"}}).encode()
        write(b"Content-Length: %d\r\n\r\n%s" % (len(body) + int(os.environ["HOSTILE_OFF_BY"]), body))

    server.on["textDocument/hover"] = hover


def mode_asks_unknown(server: Server) -> None:
    """Asks for what nobody knows before it answers; the answers are in the notes."""

    def hover(message: Message) -> None:
        send({"id": 901, "method": "workspace/inventBeverages", "params": {}})
        send({"id": 902, "method": "workspace/applyEdit", "params": {"edit": {"changes": {}}}})
        send({"id": 903, "method": "workspace/workspaceFolders"})
        send({"method": "$/unheardOf", "params": [1]})
        send({"method": "textDocument/publishDiagnostics", "params": "nonsense"})
        answer(message, {"contents": "asked"})

    server.on["textDocument/hover"] = hover


def mode_content_modified(server: Server) -> None:
    asked: list[int] = []

    def references(message: Message) -> None:
        asked.append(1)
        if len(asked) < 3:
            fail(message, -32801, "content modified")
        else:
            answer(message, [{"uri": uri_of(message), "range": NAME}])

    server.on["textDocument/references"] = references


def mode_busy(server: Server) -> None:
    """Knows one reference while it indexes, three afterwards."""
    done: list[int] = []

    def start(message: Message) -> None:
        server.did_open(message)
        send({"method": "$/progress", "params": {"token": "t", "value": {"kind": "begin", "title": "indexing"}}})

        def end() -> None:
            done.append(1)
            send({"method": "$/progress", "params": {"token": "t", "value": {"kind": "end"}}})

        later(float(os.environ.get("HOSTILE_BUSY_S", "0.5")), end)

    def references(message: Message) -> None:
        lines = range(3) if done else range(1)
        ranges = [{"start": {"line": n, "character": 4}, "end": {"line": n, "character": 8}} for n in lines]
        answer(message, [{"uri": uri_of(message), "range": one} for one in ranges])

    server.on["textDocument/didOpen"] = start
    server.on["textDocument/references"] = references


def mode_slow_load(server: Server) -> None:
    """Says nothing of loading, and knows more with every question."""
    asked: list[int] = []

    def references(message: Message) -> None:
        asked.append(1)
        lines = range(min(len(asked), 3))
        ranges = [{"start": {"line": n, "character": 4}, "end": {"line": n, "character": 8}} for n in lines]
        answer(message, [{"uri": uri_of(message), "range": one} for one in ranges])

    server.on["textDocument/references"] = references


# Diagnostics


def mode_push_empty_first(server: Server) -> None:
    """An empty push without a version, and the truth a moment later."""

    def open_(message: Message) -> None:
        server.did_open(message)
        push(uri_of(message), [])
        later(0.077, lambda: push(uri_of(message), [problem("one"), problem("two")]))

    server.on["textDocument/didOpen"] = open_


def mode_push_versions(server: Server) -> None:
    """Pushes the past again before the present."""

    def open_(message: Message) -> None:
        server.did_open(message)
        push(uri_of(message), [problem("of version 1")], 1)

    def change(message: Message) -> None:
        server.did_change(message)
        push(uri_of(message), [], 1)
        version = message["params"]["textDocument"]["version"]
        later(0.2, lambda: push(uri_of(message), [problem(f"of version {version}")], version))

    server.on["textDocument/didOpen"] = open_
    server.on["textDocument/didChange"] = change


def mode_push_once(server: Server) -> None:
    """Pushes what is wrong with a file when it is opened for the first time, and then no more."""
    opened: list[str] = []

    def open_(message: Message) -> None:
        server.did_open(message)
        if uri_of(message) not in opened:
            opened.append(uri_of(message))
            push(uri_of(message), [], message["params"]["textDocument"]["version"])

    server.on["textDocument/didOpen"] = open_


def mode_push_ahead(server: Server) -> None:
    """Pushes about a version that nobody has sent yet."""

    def open_(message: Message) -> None:
        server.did_open(message)
        push(uri_of(message), [], message["params"]["textDocument"]["version"] + 7)

    server.on["textDocument/didOpen"] = open_


def mode_register_late(server: Server) -> None:
    """Wants to be asked, and says so only after a while."""

    def open_(message: Message) -> None:
        server.did_open(message)
        registration = {"id": "d", "method": "textDocument/diagnostic", "registerOptions": {}}
        params = {"registrations": [registration]}
        later(0.8, lambda: send({"id": 904, "method": "client/registerCapability", "params": params}))

    server.on["textDocument/didOpen"] = open_
    server.on["textDocument/diagnostic"] = lambda m: answer(m, {"kind": "full", "items": [problem("pulled")]})


def mode_silent_diagnostics(server: Server) -> None:
    """Neither pushes nor answers."""
    server.capabilities["diagnosticProvider"] = {"interFileDependencies": False}
    server.on["textDocument/diagnostic"] = lambda m: None


# Edits


def _rename_to(edit: Callable[[Message], Any]) -> Callable[[Server], None]:
    def mode(server: Server) -> None:
        server.on["textDocument/rename"] = lambda m: answer(m, edit(m))

    return mode


def _edit(start: int, end: int, text: str = "x", line: int = 0) -> Message:
    return {
        "range": {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}},
        "newText": text,
    }


def _outside(message: Message) -> Any:
    return {"changes": {uri_of(message): [_edit(4, 8)], f"file://{os.environ['HOSTILE_OUTSIDE']}": [_edit(4, 8)]}}


def _shapes(message: Message) -> Any:
    document = {"uri": uri_of(message), "version": None}
    return {"changes": {}, "documentChanges": [{"textDocument": document, "edits": [_edit(4, 8, "both")]}]}


def _create(message: Message) -> Any:
    return {"documentChanges": [{"kind": "create", "uri": uri_of(message)}]}


mode_edit_outside = _rename_to(_outside)
mode_edit_overlapping = _rename_to(lambda m: {"changes": {uri_of(m): [_edit(4, 8), _edit(4, 8)]}})
mode_edit_nothing = _rename_to(lambda m: {"changes": {}})
mode_edit_wrong_range = _rename_to(lambda m: {"changes": {uri_of(m): [_edit(400, 408)]}})
mode_edit_wrong_line = _rename_to(lambda m: {"changes": {uri_of(m): [_edit(4, 8, line=4000)]}})
mode_edit_backwards = _rename_to(lambda m: {"changes": {uri_of(m): [_edit(8, 4)]}})
mode_edit_something_else = _rename_to(lambda m: {"changes": {uri_of(m): [_edit(0, 3)]}})
mode_edit_creates = _rename_to(_create)
mode_edit_both_shapes = _rename_to(_shapes)
mode_edit_nonsense = _rename_to(lambda m: {"changes": {uri_of(m): "everything"}})


def mode_disk_changes_meanwhile(server: Server) -> None:
    """Somebody writes the file while the rename is being computed: a line is added on top."""

    def rename(message: Message) -> None:
        path = Path(uri_of(message).removeprefix("file://"))
        path.write_text("def name(): somebody\n" + path.read_text())
        server.rename(message)

    server.on["textDocument/rename"] = rename


def mode_command_edits(server: Server) -> None:
    """A code action that is a command, which applies its edit by asking us to."""
    action = {"title": "Mend it", "command": {"title": "Mend it", "command": "mend", "arguments": []}}
    asked: list[Message] = []

    def actions(message: Message) -> None:
        asked.append(message)
        answer(message, [action])

    def execute(message: Message) -> None:
        edit = {"changes": {uri_of(asked[-1]): [_edit(4, 8, "good")]}}
        send({"id": 905, "method": "workspace/applyEdit", "params": {"edit": edit}})
        reply = read_message()
        server.note(f"applied {json.dumps(reply['result'] if reply else None)}")
        answer(message, None)

    server.on["textDocument/codeAction"] = actions
    server.on["workspace/executeCommand"] = execute


# Size


def mode_floods(server: Server) -> None:
    """Endless lines on stderr, and a message larger than any allowed."""

    def hover(message: Message) -> None:
        sys.stderr.write("x" * 100_000 + "\n" + "y\n" * 10_000)
        sys.stderr.flush()
        answer(message, {"contents": "z" * 300_000})

    server.on["textDocument/hover"] = hover


def mode_swallows_memory(server: Server) -> None:
    server.held = bytearray(200 * 1024 * 1024)  # type: ignore[attr-defined]
    for at in range(0, len(server.held), 4096):  # type: ignore[attr-defined]
        server.held[at] = 1  # type: ignore[attr-defined]


if __name__ == "__main__":
    made = Server()
    for mode in sys.argv[1:]:
        globals()[f"mode_{mode}"](made)
    made.run()
