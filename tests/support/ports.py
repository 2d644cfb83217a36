"""Ports reserved for a test whose servers are killed and restarted."""

from __future__ import annotations

import random
from itertools import chain

from acquisition.shards.servers import machine


def base_port(count: int) -> str:
    """The first of ``count`` free ports in a row, below those that the system gives to clients."""
    while True:
        first = random.randrange(21_000, 22_700 - count)
        ports = range(first, first + count)
        if all(map(machine.port_is_free, chain(ports, (port + machine.BUS_OFFSET for port in ports)))):
            return str(first)
