"""Translates errors of PostgreSQL and of its connection into StoreErrors that tell the user what to do.

Errors are recognised by their SQLSTATE, so nothing here needs the driver.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from aish.errors import AishError, StoreError

_ELSEWHERE = "point store.url elsewhere"

# The longest matching prefix counts.
_REASONS: dict[str, tuple[str, str]] = {
    "08": ("cannot be reached", "check that PostgreSQL runs there, and store.url"),
    "22": ("refused a value", "this looks like a defect; please report it"),
    "25006": ("is read only", "name the primary in store.url, not a standby"),
    "28": ("refused the login", "check user and password in store.url, and the server's pg_hba.conf"),
    "3D": ("is not there", "create it with `createdb`, or correct store.url"),
    "3F": ("has no schema of aish's any more", "start aish again: it makes what is missing"),
    "40": ("is in use by others that wait for each other", "try again"),
    "42501": ("may not be written by this user", "let the user of store.url own the database, or create in it"),
    "42P01": ("has no tables of aish's any more", "start aish again: it makes what is missing"),
    "53100": ("cannot grow: its disk is full", f"free some space there, or {_ELSEWHERE}"),
    "53200": ("is out of memory", "give PostgreSQL more memory, or fewer connections"),
    "53300": ("takes no more connections", "raise max_connections, run fewer replicas, or put a pooler in between"),
    "54": ("takes nothing that large", "use shorter ids"),
    "55P03": ("is locked by another process", "try again"),
    "57014": ("did not answer in time", "look at what keeps PostgreSQL busy"),
    "57": ("is shutting down or starting", "try again"),
    "58": ("cannot read or write its files", "look at the log of PostgreSQL"),
}
# The connection cannot be used any more, or leads to the wrong server.
_LOST = ("08", "25006", "25P03", "57P")
# A retry may work, over a new connection or a little later.
_PASSING = (*_LOST, "40", "53300", "55P03", "57")
# Errors that concern the whole database, and not just the operation that met them.
_WHOLE = (*_PASSING, "3D", "3F", "28", "42501", "42P01", "53", "58", "XX")


def name_of(url: str) -> str:
    """The database as it may be shown: its address, without the login."""
    try:
        parts = urlsplit(url)
        address = f"{parts.hostname or 'localhost'}:{parts.port or 5432}"
    except ValueError:
        return "of store.url"
    return f"postgresql://{address}{parts.path}"


def sqlstate(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def is_lost(error: BaseException) -> bool:
    """Whether the connection cannot be used any more."""
    if isinstance(error, OSError | TimeoutError | EOFError):
        return True
    return sqlstate(error).startswith(_LOST) or _is_the_drivers(error)


def is_passing(error: BaseException) -> bool:
    return is_lost(error) or sqlstate(error).startswith(_PASSING)


def breaks_the_group(error: BaseException) -> bool:
    return is_lost(error) or sqlstate(error).startswith(_WHOLE)


def translate(error: BaseException, name: str) -> AishError:
    if isinstance(error, AishError):
        return error
    if isinstance(error, TimeoutError):
        return StoreError(
            f"the store {name} did not answer in time", hint="check that PostgreSQL is up and not overloaded"
        )
    if isinstance(error, OSError | EOFError) or _is_the_drivers(error):
        reason, hint = _REASONS["08"]
        return StoreError(f"the store {name} {reason}: {_said(error)}", hint=hint)
    for length in (5, 2):
        if (found := _REASONS.get(sqlstate(error)[:length])) is not None:
            return StoreError(f"the store {name} {found[0]}: {_said(error)}", hint=found[1])
    return StoreError(
        f"the store {name} refused an operation: {_said(error)}", hint="this looks like a defect; please report it"
    )


def _is_the_drivers(error: BaseException) -> bool:
    """Errors that asyncpg itself raises are about its connection, except for arguments that it cannot encode."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds & {"InterfaceError", "InternalClientError"}) and "DataError" not in kinds


def _said(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
