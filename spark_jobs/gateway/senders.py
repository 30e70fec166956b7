"""Who sends by WebSocket: the last connection of each source has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Sender:
    """A connection of a source; ``fence`` has it take nothing more, ``token`` is its token's name."""

    stream: str
    source: str
    name: str | None
    token: str
    connected_ms: int
    fence: Callable[[], None]
    persisted: int = 0


class Senders:
    """Asked from the server's loop."""

    def __init__(self) -> None:
        self._senders: dict[tuple[str, str], Sender] = {}

    def __iter__(self) -> Iterator[Sender]:
        """Yield all of them."""
        return iter(self._senders.values())

    def enter(self, sender: Sender) -> None:
        """Let it have its source, which an earlier connection has no more."""
        earlier = self._senders.get((sender.stream, sender.source))
        self._senders[sender.stream, sender.source] = sender
        if earlier is not None:
            earlier.fence()

    def leave(self, sender: Sender) -> bool:
        """Forget it, unless a later one has its source: then return False. It is safe to repeat."""
        if self._senders.get((sender.stream, sender.source)) is not sender:
            return False
        del self._senders[sender.stream, sender.source]
        return True
