"""Taskstats: context switches and waiting time of a thread, by netlink.

/proc/PID/status costs four times as much as all other files of a process that a probe needs, because the
kernel formats everything else in it; taskstats (Documentation/accounting/taskstats.rst)
returns the same two counters, and that of schedstat, in one binary message of generic
netlink. It requires CAP_NET_ADMIN: without it, or if the kernel has no taskstats, /proc is read.
"""

from __future__ import annotations

import _socket
import os
import struct

from probes.sampling.procfs import number_after, read_once

_NETLINK_GENERIC = 16
_GENL_ID_CTRL = 16
_CTRL_CMD_GETFAMILY = 3
_CTRL_ATTR_FAMILY_ID = 1
_CTRL_ATTR_FAMILY_NAME = 2
_TASKSTATS_CMD_GET = 1
_TASKSTATS_CMD_ATTR_PID = 1
_TASKSTATS_TYPE_STATS = 3
_TASKSTATS_TYPE_AGGR_PID = 4
_NLM_F_REQUEST = 1
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_GENERIC = struct.Struct("=BBH")  # struct genlmsghdr
_ATTRIBUTE = struct.Struct("=HH")  # struct nlattr
_START = _HEADER.size + _GENERIC.size
_REQUEST = struct.Struct("=IHHIIBBHHHI")
_SIZE = 4096
#: Offsets in struct taskstats, whose fields are only ever extended at the end (include/uapi/linux/taskstats.h).
_OFFSET = 24
_FIGURES = struct.Struct("=Q96xI140xQQ")  # cpu_delay_total, ac_pid, nvcsw, nivcsw


class TaskStats:
    """A netlink socket and the place of the figures in its answers; see ``connect``."""

    __slots__ = ("_buffer", "_socket", "at", "family")

    def __init__(self, netlink: _socket.socket, family: int, at: int) -> None:
        self._socket = netlink
        self.family = family
        self.at = at
        self._buffer = bytearray(_SIZE)

    def read(self, pid: int) -> tuple[int, int, int] | None:
        """Nanoseconds spent waiting for a core, voluntary and involuntary switches of a thread; None: no answer."""
        try:
            self._socket.send(_request(self.family, pid))
            size = self._socket.recv_into(self._buffer, _SIZE, _socket.MSG_DONTWAIT)
        except OSError:
            return None
        if size < self.at + _OFFSET + _FIGURES.size:
            return None  # an error message: the thread is gone
        waited, who, voluntary, involuntary = _FIGURES.unpack_from(self._buffer, self.at + _OFFSET)
        return (waited, voluntary, involuntary) if who == pid else None

    def fileno(self) -> int:
        """The netlink socket, for ``probes.sources._process_step``, for the same request with ``family`` and ``at``."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def connect() -> TaskStats | None:
    """Taskstats if this process may use it and it agrees with /proc about this very process, else None."""
    try:
        netlink = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, _NETLINK_GENERIC)
    except OSError:
        return None
    try:
        netlink.bind((0, 0))
        netlink.settimeout(1.0)
        found = _checked(netlink)
        if found is not None:
            netlink.setblocking(False)  # the kernel answers while it accepts the request; a timeout would mean polls
            return found
    except (OSError, struct.error):
        pass
    netlink.close()
    return None


def _checked(netlink: _socket.socket) -> TaskStats | None:
    family = _family(netlink)
    if family is None:
        return None
    pid = os.getpid()
    netlink.send(_request(family, pid))
    at = _stats_offset(netlink.recv(_SIZE))
    if at is None:
        return None
    found = TaskStats(netlink, family, at)
    before = _from_proc()
    figures = found.read(pid)
    after = _from_proc()
    if figures is None or not all(
        low <= figure <= high for low, figure, high in zip(before, figures, after, strict=True)
    ):
        return None
    return found


def _from_proc() -> tuple[int, int, int]:
    status = read_once("/proc/self/status")
    voluntary = number_after(status, b"\nvoluntary_ctxt_switches:")
    involuntary = number_after(status, b"\nnonvoluntary_ctxt_switches:")
    return int(read_once("/proc/self/schedstat").split()[1]), voluntary or 0, involuntary or 0


def _request(family: int, pid: int) -> bytes:
    return _REQUEST.pack(
        _REQUEST.size, family, _NLM_F_REQUEST, 0, 0, _TASKSTATS_CMD_GET, 1, 0, 8, _TASKSTATS_CMD_ATTR_PID, pid
    )


def _family(netlink: _socket.socket) -> int | None:
    name = b"TASKSTATS\0".ljust(12, b"\0")
    attribute = _ATTRIBUTE.pack(_ATTRIBUTE.size + 10, _CTRL_ATTR_FAMILY_NAME) + name
    body = _GENERIC.pack(_CTRL_CMD_GETFAMILY, 1, 0) + attribute
    netlink.send(_HEADER.pack(_HEADER.size + len(body), _GENL_ID_CTRL, _NLM_F_REQUEST, 0, 0) + body)
    answer = netlink.recv(_SIZE)
    at = _find(answer, _START, _CTRL_ATTR_FAMILY_ID)
    return None if at is None else int(struct.unpack_from("=H", answer, at)[0])


def _stats_offset(answer: bytes) -> int | None:
    """Offset of struct taskstats in an answer."""
    inside = _find(answer, _START, _TASKSTATS_TYPE_AGGR_PID)
    return None if inside is None else _find(answer, inside, _TASKSTATS_TYPE_STATS)


def _find(message: bytes, at: int, wanted: int) -> int | None:
    """Offset of the payload of the attribute ``wanted`` in the list that starts at ``at``."""
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if length < _ATTRIBUTE.size:
            return None
        if kind & 0x3FFF == wanted:
            return at + _ATTRIBUTE.size
        at += (length + 3) & ~3
    return None
