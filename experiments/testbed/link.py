"""Link of a host to the bridge, and its faults, singly or combined.

=========  =================================================================================
cut        ``ip link set down``: the port loses its carrier
rate       ``tc tbf`` at both ends (tc-tbf(8)): both directions, each at most that rate
delay      the relay (experiments.testbed.relay)
loss       as delay
block      the relay: TCP packets from one address to this host vanish, all others pass
=========  =================================================================================

The relay is a process between port and bridge that forwards Ethernet frames, delays or drops them. Unlike netem it
needs nothing of the kernel; a TCP proxy would have to sit at the address that the shards announce to each other, and no
proxy can lose packets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from acquisition.errors import CannotCreateError
from acquisition.link.resp import Address
from experiments.testbed import capability
from experiments.testbed.commands import run, succeeds
from experiments.testbed.namespace import Namespace
from experiments.testbed.relay_process import RelayProcess

_SMALLEST_BURST = 32_000


class Conditions(NamedTuple):
    """Effect of a link on packets, in each direction. Times in seconds, ``loss`` as a probability,
    ``rate`` in bits per second (0: as fast as it can)."""

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    rate: float = 0.0
    blocked: tuple[Address, ...] = ()


class Fault:
    """A fault in effect; ``heal`` ends it (repeated calls do nothing). Also a context manager."""

    def __init__(self, name: str, heal: Callable[[], None]) -> None:
        self.name = name
        self._heal: Callable[[], None] | None = heal

    def heal(self) -> None:
        """End the fault."""
        if self._heal is not None:
            self._heal()
            self._heal = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


class Link:
    """Between ``port``, in the namespace of the bridge, and eth0 of a host. Each kind of fault exists
    at most once (``block``: once per source): making it again replaces it. Threads may make different faults of
    one link at the same time. Methods raise CannotCreateError if the kernel refuses."""

    def __init__(self, port: str, switch: Namespace, host: Namespace) -> None:
        self._port = port
        self._switch = switch
        self._host = host
        self._conditions = Conditions()
        self._relay: RelayProcess | None = None
        self._cut = False
        self._lock = threading.RLock()

    def cut(self) -> Fault:
        """Nothing passes: the cable is pulled."""
        self._set_cut(True)
        return Fault("cut", lambda: self._set_cut(False))

    def rate(self, bits_per_second: float) -> Fault:
        """At most this many bits per second in each direction; excess beyond 0.4 s is lost."""
        if not capability.has_tbf():
            raise CannotCreateError("no rate limit: this kernel has no tc tbf (CONFIG_NET_SCH_TBF)")
        self._change(rate=bits_per_second)
        return Fault("rate", lambda: self._change(rate=0.0))

    def delay(self, seconds: float, jitter: float = 0.0) -> Fault:
        """Every packet takes ``seconds`` longer in each direction, up to ``jitter`` more at random, in order."""
        self._change(delay=seconds, jitter=jitter)
        return Fault("delay", lambda: self._change(delay=0.0, jitter=0.0))

    def loss(self, probability: float) -> Fault:
        """Each packet is lost with this probability, in each direction."""
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f"{probability} is no probability")
        self._change(loss=probability)
        return Fault("loss", lambda: self._change(loss=0.0))

    def block(self, source: Address) -> Fault:
        """TCP packets from ``source`` to this host vanish, without a trace for either side."""
        with self._lock:
            self._change(blocked=(*self._conditions.blocked, source))
        return Fault("block", lambda: self._unblock(source))

    def heal(self) -> None:
        """End all faults."""
        self._change(**Conditions()._asdict())
        self._set_cut(False)

    def close(self) -> None:
        """End the relay if there is one."""
        with self._lock:
            if self._relay is not None:
                self._relay.stop()
                self._relay = None

    def _set_cut(self, cut: bool) -> None:
        with self._lock:
            if cut != self._cut:
                with self._switch.inside():
                    run("ip", "link", "set", self._port, "down" if cut else "up")
                self._cut = cut

    def _unblock(self, source: Address) -> None:
        with self._lock:
            self._change(blocked=tuple(address for address in self._conditions.blocked if address != source))

    def _change(self, **changes: Any) -> None:
        """Change the link from its current conditions to new ones."""
        with self._lock:
            wanted = self._conditions._replace(**changes)
            if wanted.rate != self._conditions.rate:
                self._limit(wanted.rate)
            relayed = wanted._replace(rate=0.0)
            if relayed == Conditions():
                self.close()
            elif relayed != self._conditions._replace(rate=0.0):
                self._relay = self._relay or RelayProcess(self._port, self._switch)
                self._relay.become(relayed._asdict())
            self._conditions = wanted

    def _limit(self, rate: float) -> None:
        """Set the queueing discipline for this rate at both ends of the link."""
        for namespace, interface in ((self._switch, self._port), (self._host, "eth0")):
            with namespace.inside():
                succeeds("tc", "qdisc", "delete", "dev", interface, "root")
                if rate:
                    run("tc", "qdisc", "add", "dev", interface, "root", "handle", "1:", *_tbf(rate))


def _tbf(rate: float) -> list[str]:
    burst = max(_SMALLEST_BURST, int(rate / 8 / 100))
    return ["tbf", "rate", f"{rate:.0f}bit", "burst", f"{burst}b", "latency", "400ms"]
