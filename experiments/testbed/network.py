"""Network of hosts in namespaces on one bridge, reachable from here.

::

    this namespace ── uplink ──┐
    host 0: eth0 ──── port0 ───┤ bridge, in a namespace of its own
    host 1: eth0 ──── port1 ───┘

Addresses are of 198.18.0.0/15, which is set aside for tests (RFC 2544, RFC 5735): 198.18.S.1 is this
process, 198.18.S.10 host 0. Testbeds of several processes take different S.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from acquisition.errors import CannotCreateError
from experiments.testbed.capability import missing
from experiments.testbed.commands import run, succeeds
from experiments.testbed.link import Link
from experiments.testbed.namespace import Namespace

_SUBNETS = 512
_FIRST_HOST = 10
_MOST_HOSTS = 240
_numbers = itertools.count()


class Host:
    """One machine of the testbed. ``link`` is its connection to the bridge, where faults are made."""

    def __init__(self, name: str, address: str, namespace: Namespace, link: Link) -> None:
        self.name = name
        self.address = address
        self.namespace = namespace
        self.link = link

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Move the calling thread to this host: its new sockets and children belong there for as long as they live."""
        with self.namespace.inside():
            yield

    def close(self) -> None:
        """End its relay and its namespace; calling it again is harmless."""
        self.link.close()
        self.namespace.close()


class Testbed:
    """A bridge and ``hosts`` hosts on it; a context manager that removes them.

    Raises CannotCreateError with the reason if this is not possible (see ``missing``).
    """

    __test__ = False  #: pytest: this is no test

    def __init__(self, hosts: int = 3) -> None:
        reason = missing()
        if reason:
            raise CannotCreateError(reason)
        if not 0 < hosts <= _MOST_HOSTS:
            raise CannotCreateError(f"{hosts} hosts: a testbed has 1 to {_MOST_HOSTS}")
        self.hosts: list[Host] = []
        self._home = Namespace.current()
        self._switch = Namespace.create()
        self._uplink = f"sp{os.getpid()}u{next(_numbers)}"
        self._subnet, self._claim = _claim_subnet()
        try:
            self._plug_in()
            for _ in range(hosts):
                self.add_host()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """Address of this process for the hosts."""
        return f"{self._subnet}.1"

    def add_address(self, last: int) -> str:
        """Add an address of this process, 198.18.S.``last`` (2 to 9); returns it. Raises CannotCreateError."""
        address = f"{self._subnet}.{last}"
        run("ip", "address", "add", f"{address}/24", "dev", self._uplink)
        return address

    def add_host(self) -> Host:
        """Add a host; returns it."""
        number = len(self.hosts)
        namespace = Namespace.create()
        port, address = f"port{number}", f"{self._subnet}.{_FIRST_HOST + number}"
        try:
            with self._switch.inside():
                _silence()
                run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace.path)
                run("ip", "link", "set", port, "master", "bridge0", "up")
            with namespace.inside():
                _silence()
                run("ip", "link", "set", "lo", "up")
                run("ip", "address", "add", f"{address}/24", "dev", "eth0")
                run("ip", "link", "set", "eth0", "up")
        except BaseException:
            namespace.close()
            raise
        host = Host(f"host{number}", address, namespace, Link(port, self._switch, namespace))
        self.hosts.append(host)
        return host

    def heal(self) -> None:
        """End all faults of all links."""
        for host in self.hosts:
            host.link.heal()

    def close(self) -> None:
        """Remove the hosts; calling it again is harmless."""
        for host in self.hosts:
            host.close()
        succeeds("ip", "link", "delete", self._uplink)
        self._switch.close()
        self._home.close()
        self._claim.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _plug_in(self) -> None:
        """Create the bridge, and the link from it to this process."""
        with self._switch.inside():
            _silence()
            run("ip", "link", "add", "bridge0", "type", "bridge")
            run("ip", "link", "set", "bridge0", "up")
            run("ip", "link", "add", "uplink", "type", "veth", "peer", "name", self._uplink, "netns", self._home.path)
            run("ip", "link", "set", "uplink", "master", "bridge0", "up")
        run("ip", "address", "add", f"{self.address}/24", "dev", self._uplink)
        run("ip", "link", "set", self._uplink, "up")


def _silence() -> None:
    """Disable IPv6 in this namespace: its neighbour discovery would only delay links coming up."""
    for which in ("all", "default"):
        with contextlib.suppress(OSError):  # a kernel without IPv6
            Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6").write_text("1")


def _claim_subnet() -> tuple[str, socket.socket]:
    """A subnet unused by other testbeds of this namespace, and the socket that reserves it until closed.

    An abstract unix socket belongs to the network namespace and disappears with its process (unix(7)).
    """
    for offset in range(_SUBNETS):
        number = (os.getpid() + offset) % _SUBNETS
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0shardpulse-testbed-{number}")
        except OSError:
            claim.close()
            continue
        return f"198.{18 + number // 256}.{number % 256}", claim
    raise CannotCreateError(f"all {_SUBNETS} subnets of testbeds are in use on this machine")
