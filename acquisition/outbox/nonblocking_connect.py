"""Making a TCP connection without waiting: connect(2) with O_NONBLOCK, then SO_ERROR."""

from __future__ import annotations

import errno
import socket

from acquisition.outbox.lookup import Target


def begin_connect(target: Target) -> socket.socket:
    """A socket on its way to ``target``. Raises OSError when that fails at once."""
    made = socket.socket(target[0], socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        status = made.connect_ex(target[1])
        if status not in (0, errno.EINPROGRESS):
            raise OSError(status, errno.errorcode.get(status, "error"))
    except OSError:
        made.close()
        raise
    return made


def is_connected(made: socket.socket) -> bool:
    """Whether a socket of ``begin_connect`` is connected by now. Raises OSError when it never will be."""
    status = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if status:
        raise ConnectionRefusedError(status, errno.errorcode.get(status, "error"))
    try:
        peer = made.getpeername()
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            return False
        raise
    if peer == made.getsockname():
        # loopback: the kernel gave us the very port that we want to reach
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens there")
    return True
