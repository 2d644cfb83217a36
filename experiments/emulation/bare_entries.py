"""Bare XADD entries of emulated frames, the pipeline's reference.

They are sent as bytes on a connection.
"""

from __future__ import annotations

import socket
import time

from acquisition.link.resp import parse_address
from acquisition.wire import frame as wire
from acquisition.wire.frame import Frame
from experiments.emulation.membership import Membership, first_serials
from experiments.emulation.values import Strip
from experiments.emulation.workload import Workload, host_number

FRAMES = 64  #: different frames; each is sent by many hosts


def payloads(workload: Workload) -> list[bytes]:
    """Frames as the emulated hosts make them, as the last argument of an XADD."""
    strip = Strip(workload)
    members = Membership(workload, 0, first_serials(workload)).members
    made = []
    for number in range(FRAMES):
        values, codes = strip.cut(strip.row(strip.start(0), number), workload.entities)
        frame = Frame(
            wire.KIND_SAMPLES, 1, host_number(0), 1, workload.entities, workload.metrics, workload.interval, 1,
            number + 1, 1, number * workload.samples_per_frame, number, time.time(), time.monotonic(),
            members.ids, values, codes,
        )  # fmt: skip
        data = wire.encode(frame)
        made.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return made


def head(key: str, maxlen: int) -> bytes:
    """The XADD to a stream trimmed to about ``maxlen``, without the frame."""
    limit = str(maxlen)
    return (
        f"*8\r\n$4\r\nXADD\r\n${len(key)}\r\n{key}\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n${len(limit)}\r\n{limit}\r\n"
        "$1\r\n*\r\n$1\r\nf\r\n"
    ).encode()


def connect(shard: str) -> socket.socket:
    """A non-blocking connection."""
    address = parse_address(shard)
    connection = socket.create_connection((address.host, address.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
