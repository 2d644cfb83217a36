"""Looking up the name of a shard without waiting for the name server.

``getaddrinfo`` may take as long as it likes, and a probe's ticks do not wait; so a name is
looked up in a thread of its own. Addresses in figures need none.
"""

from __future__ import annotations

import _socket
import _thread
from typing import Any

from acquisition.link.resp import Address

#: Family and socket address, as ``_socket.socket`` and ``connect`` want them.
Target = tuple[int, Any]


def numeric(address: Address) -> Target | None:
    """The target of an address in figures, None when it is a name."""
    try:
        return _first(address, _socket.AI_NUMERICHOST)
    except _socket.gaierror:
        return None


class Lookup:
    """One lookup under way. ``found`` is None until there is a target, or an error."""

    def __init__(self, address: Address) -> None:
        self.found: Target | OSError | None = None
        self._address = address
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        try:
            self.found = _first(self._address, 0)
        except (OSError, UnicodeError) as error:
            # without its traceback: that leads back to here, and a probe collects no cycles
            self.found = error.with_traceback(None) if isinstance(error, OSError) else OSError(str(error))


def _first(address: Address, flags: int) -> Target:
    # a str would load the idna codec: half a megabyte in every probe
    host = address.host.encode("ascii") if address.host.isascii() else address.host
    found = _socket.getaddrinfo(host, address.port, type=_socket.SOCK_STREAM, flags=flags)
    return found[0][0], found[0][4]
