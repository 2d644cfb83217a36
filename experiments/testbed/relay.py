"""Relay of Ethernet frames between two interfaces: delayed, dropped or passed.

It runs by path, as a process.

    python relay.py IFACE IFACE < conditions

Each line on stdin is a JSON object of the conditions from now on (experiments.testbed.link.Conditions), answered by a
line ``ok``; the end of stdin ends the relay. ``blocked`` holds only for frames that go towards the first interface.
Frames stay in order whatever the jitter. Data handed by TCP to the kernel in one piece (up to 64 KiB, generic
segmentation offload) is one frame here and is lost or late as one.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import sys
import time
from collections import deque
from typing import Any

_ETH_P_ALL = 3  # if_ether.h
_SOL_PACKET, _PACKET_VNET_HDR = 263, 15  # if_packet.h: frames carry work still to be done by the kernel
_PACKET_OUTGOING = 4
_VNET_HEADER = 10  #: bytes before the Ethernet header (struct virtio_net_hdr)
_ETHERNET = _VNET_HEADER + 14
_LONGEST = 1 << 17
_QUEUE_BYTES = 8 << 20
_MOST_AT_ONCE = 64
_IPV4, _TCP = b"\x08\x00", 6


class Direction:
    """Frames from one interface to the other."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source = source
        self.target = target
        self.delay = self.jitter = self.loss = 0.0
        self.blocked: frozenset[tuple[bytes, int]] = frozenset()
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._last = 0.0

    def receive(self, now: float) -> None:
        """Take arrived frames: forward them, keep them for later or drop them."""
        for _ in range(_MOST_AT_ONCE):
            try:
                data, address = self.source.recvfrom(_LONGEST)
            except OSError:  # nothing more, or the interface is down
                return
            if address[2] == _PACKET_OUTGOING or random.random() < self.loss or is_blocked(data, self.blocked):
                continue
            if self.delay or self.jitter or self._waiting:
                self._last = max(self._last, now + self.delay + self.jitter * random.random())
                self._waiting.append((self._last, data))
            else:
                self._send(data)

    def release(self, now: float) -> float:
        """Send due frames; returns when the next one is due, infinity if none waits."""
        while self._waiting and self._waiting[0][0] <= now:
            self._send(self._waiting.popleft()[1])
        return self._waiting[0][0] if self._waiting else float("inf")

    def _send(self, data: bytes) -> None:
        try:
            self.target.send(data)
        except OSError:  # the interface is down, or its queue is full: as on a wire, the frame is lost
            return


def is_blocked(data: bytes, blocked: frozenset[tuple[bytes, int]]) -> bool:
    """Whether a frame (behind its virtio header) is IPv4 TCP from one of (address, port)."""
    if (
        not blocked
        or data[_ETHERNET - 2 : _ETHERNET] != _IPV4
        or len(data) < _ETHERNET + 20
        or data[_ETHERNET + 9] != _TCP
    ):
        return False
    ports = _ETHERNET + 4 * (data[_ETHERNET] & 15)
    return (data[_ETHERNET + 12 : _ETHERNET + 16], int.from_bytes(data[ports : ports + 2], "big")) in blocked


def _listen(interface: str) -> socket.socket:
    listening = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(_ETH_P_ALL))
    listening.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    for option in (getattr(socket, "SO_RCVBUFFORCE", 33), getattr(socket, "SO_SNDBUFFORCE", 32)):
        listening.setsockopt(socket.SOL_SOCKET, option, _QUEUE_BYTES)
    listening.bind((interface, 0))
    return listening


def _apply(conditions: dict[str, Any], inwards: Direction, outwards: Direction) -> None:
    for direction in (inwards, outwards):
        direction.delay, direction.jitter = conditions["delay"], conditions["jitter"]
        direction.loss = conditions["loss"]
    inwards.blocked = frozenset((socket.inet_aton(host), port) for host, port in conditions["blocked"])


def main(argv: list[str]) -> None:
    """Relay until stdin ends."""
    outer, inner = _listen(argv[0]), _listen(argv[1])
    inwards, outwards = Direction(inner, outer), Direction(outer, inner)
    poll = select.epoll()
    for descriptor in (0, outer.fileno(), inner.fileno()):
        poll.register(descriptor, select.EPOLLIN)
    orders = b""
    wake = float("inf")
    while True:
        wait = max(0.0, wake - time.monotonic()) if wake != float("inf") else -1
        ready = [descriptor for descriptor, _ in poll.poll(wait)]
        if 0 in ready:
            text = os.read(0, 1 << 16)
            if not text:
                return
            *lines, orders = (orders + text).split(b"\n")
            for line in lines:
                _apply(json.loads(line), inwards, outwards)
                os.write(1, b"ok\n")
        now = time.monotonic()
        for direction in (inwards, outwards):
            if direction.source.fileno() in ready:
                direction.receive(now)
        wake = min(inwards.release(now), outwards.release(now))


if __name__ == "__main__":
    main(sys.argv[1:])
