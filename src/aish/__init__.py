"""aish: a local AI runtime. `from aish import Aish, tool` is the library; `docs/extend.md` describes it."""

__version__ = "0.1.0"

# The public names and the modules that define them. Each is imported when it is first used: `import aish` stays light.
# `__init__.pyi` has the same names for type checkers.
_PUBLIC = {
    "AishError": "aish.errors",
    "AgentDefinition": "aish.types.models",
    "Aish": "aish.library.client",
    "Reply": "aish.library.replies",
    "ReplyError": "aish.library.client",
    "Ask": "aish.types.decisions",
    "Change": "aish.types.decisions",
    "Choice": "aish.types.decisions",
    "Context": "aish.extensions.context",
    "Deny": "aish.types.decisions",
    "HookEvent": "aish.types.decisions",
    "Event": "aish.types.events",
    "TextDelta": "aish.types.events",
    "ReasoningDelta": "aish.types.events",
    "ToolCallReady": "aish.types.events",
    "ToolResult": "aish.types.events",
    "Status": "aish.types.events",
    "TurnFinished": "aish.types.events",
    "Image": "aish.extensions.results",
    "Note": "aish.types.decisions",
    "Prompt": "aish.extensions.results",
    "Question": "aish.types.decisions",
    "command": "aish.extensions.definitions",
    "hook": "aish.extensions.definitions",
    "run": "aish.library.client",
    "settings": "aish.extensions.definitions",
    "tool": "aish.extensions.definitions",
}
__all__ = ["__version__", *_PUBLIC]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _PUBLIC:
        raise AttributeError(f"module 'aish' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
