"""Record encoder: smoothed records as SET commands.

Their layout is in ``acquisition.wire.records.smoothed``.
"""

from __future__ import annotations

import itertools

import numpy as np

from acquisition.wire.frame import Frame
from acquisition.wire.records import smoothed
from filters.kernels.numpy_step import Smoothed
from filters.kernels.step import Kernel

_EXCEPTION_SIZE = smoothed.EXCEPTION.itemsize


def set_prefix(key: str) -> bytes:
    """Beginning of SET key value EX seconds: up to the value's length."""
    return f"*5\r\n$3\r\nSET\r\n${len(key)}\r\n{key}\r\n$".encode()


class RecordEncoder:
    """``kernels`` in plane order; ``expire``: seconds after which a record without writes expires; ``version`` of the
    records. ``tail``: the part of a SET after the value; ``raw``: number of planes with the frame's own values."""

    def __init__(self, kernels: tuple[Kernel, ...], expire: int, version: int = smoothed.VERSION) -> None:
        self._version = version
        self._planes = len(kernels)
        self.raw = sum(kernel.raw for kernel in kernels)
        numbers = bytes(kernel.plane.number for kernel in kernels)
        self._plane_ids = numbers.ljust(smoothed.MAX_PLANES, b"\0")
        digits = str(expire).encode()
        self.tail = b"\r\n$2\r\nEX\r\n$%d\r\n%s\r\n" % (len(digits), digits)

    def header(self, frame: Frame, now: float, exceptions: int = 0, inputs_size: int = 0) -> bytes:
        """The 96 bytes before the decision inputs."""
        _, schema, host, resource_set, entities, metrics, interval, epoch, sequence, _, _, tick, wall, monotonic = (
            frame[:14]
        )
        return smoothed.HEADER.pack(
            smoothed.MAGIC,
            self._version,
            self._planes,
            metrics,
            entities,
            exceptions,
            host,
            resource_set,
            schema,
            interval,
            inputs_size,
            self._plane_ids,
            epoch,
            sequence,
            tick,
            wall,
            monotonic,
            now,
        )

    def set_command(
        self,
        prefix: bytes,
        frame: Frame,
        planes: memoryview,
        exceptions: bytes,
        now: float,
        inputs: bytes | memoryview = b"",
    ) -> bytes:
        """SET key record EX seconds; ``prefix`` from ``set_prefix``.

        ``planes``: computed planes of this frame alone, as bytes, after the raw ones; ``inputs``: section of decision
        inputs.
        """
        head = self.header(frame, now, len(exceptions) // _EXCEPTION_SIZE, len(inputs))
        size = len(head) + len(inputs) + len(frame.ids) + self._planes * len(frame.values) + len(exceptions)
        raw = frame.values * self.raw
        return b"".join((prefix, b"%d\r\n" % size, head, inputs, frame.ids, raw, planes, exceptions, self.tail))


def exceptions_of(result: Smoothed, starts: np.ndarray[tuple[int], np.dtype[np.intp]]) -> list[bytes]:
    """The exceptions of each frame of a batch, as bytes; indexes are relative to their own frame.

    ``starts`` (F + 1,) first position of each frame, and the total.
    """
    bounds = np.searchsorted(result.exceptions, starts)
    table = np.empty(result.exceptions.size, smoothed.EXCEPTION)
    table["index"] = result.exceptions - np.repeat(starts[:-1], np.diff(bounds))
    table["code"] = result.codes
    table["age"] = result.ages
    data, size = table.tobytes(), smoothed.EXCEPTION.itemsize
    edges = (bounds * size).tolist()
    return [data[low:high] for low, high in itertools.pairwise(edges)]
