"""aish: a local AI runtime. `from aish import Aish, tool` is the library; `docs/extend.md` describes it."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from aish.extensions.context import Context as Context
    from aish.extensions.definitions import command as command
    from aish.extensions.definitions import hook as hook
    from aish.extensions.definitions import settings as settings
    from aish.extensions.definitions import tool as tool
    from aish.extensions.results import Image as Image
    from aish.extensions.results import Prompt as Prompt
    from aish.types.decisions import Ask as Ask
    from aish.types.decisions import Change as Change
    from aish.types.decisions import Deny as Deny
    from aish.types.decisions import HookEvent as HookEvent
    from aish.types.decisions import Note as Note

# The public names and the modules that define them. Each is imported when it is first used: `import aish` stays light.
_PUBLIC = {
    "Ask": "aish.types.decisions",
    "Change": "aish.types.decisions",
    "Context": "aish.extensions.context",
    "Deny": "aish.types.decisions",
    "HookEvent": "aish.types.decisions",
    "Image": "aish.extensions.results",
    "Note": "aish.types.decisions",
    "Prompt": "aish.extensions.results",
    "command": "aish.extensions.definitions",
    "hook": "aish.extensions.definitions",
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
