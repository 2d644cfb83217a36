"""Own address of this machine off loopback.

It is for what must not be said beyond loopback.
"""

from __future__ import annotations

import socket


def own_address() -> str:
    """The address that this machine would send from; "" where it has none but loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        try:
            route.connect(("198.51.100.1", 9))  # TEST-NET-2 of RFC 5737: sends nothing
        except OSError:
            return ""
        address = str(route.getsockname()[0])
    return "" if address.startswith("127.") else address
