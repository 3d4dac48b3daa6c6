"""The port that the transports implement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from aish.errors import AishError


class Transport(Protocol):
    """Carries requests to one server. All failures are wire errors (AishError) and are not translated here."""

    async def request(
        self, method: str, params: dict[str, Any], *, timeout_s: float, headers: Sequence[tuple[str, str]] = ()
    ) -> msgspec.Raw:
        """`headers` are for HTTP; other transports ignore them."""

    async def notify(self, method: str, params: dict[str, Any]) -> None: ...

    def set_version(self, version: str, *, stateless: bool) -> None:
        """Sets the protocol revision for all further messages."""

    def listen(self) -> None:
        """Opens a connection for announced changes, if the transport needs one."""

    def subscribe(self, params: dict[str, Any]) -> None:
        """Asks for announcements in the stateless era, where servers send them only on request."""

    def forget_session(self) -> None:
        """The next request starts a new session."""

    def stderr_tail(self) -> str: ...

    async def wait_closed(self) -> AishError:
        """Returns the error once the server has disconnected."""
