"""Network namespace without a name, held by a descriptor.

See network_namespaces(7).

The kernel removes it, and every interface in it, as soon as the descriptor is closed and no
process is inside. A named one (``ip netns add``) would outlive a run that is killed with -9.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

from acquisition.errors import CannotCreateError

_CLONE_NEWNET = 0x40000000
_OWN = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """``Namespace.create()`` makes a new one; ``Namespace.current()`` is the calling thread's."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def current(cls) -> Namespace:
        """The calling thread's namespace."""
        return cls(os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC))

    @classmethod
    def create(cls) -> Namespace:
        """A new namespace with only a loopback interface, which is down. Raises CannotCreateError."""
        home = cls.current()
        try:
            _check(_libc.unshare(_CLONE_NEWNET), "a network namespace cannot be made")
            try:
                return cls.current()
            finally:
                home._enter()
        finally:
            home.close()

    @property
    def path(self) -> str:
        """For ``ip link … netns PATH`` and ``nsenter --net=PATH``, while this process lives."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Move the calling thread inside: its new sockets and children belong there, for as long as they live. Other
        threads of this process stay where they are."""
        before = Namespace.current()
        try:
            self._enter()
            try:
                yield
            finally:
                before._enter()
        finally:
            before.close()

    def close(self) -> None:
        """Release it; calling it again is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _enter(self) -> None:
        _check(_libc.setns(self._descriptor, _CLONE_NEWNET), "a network namespace cannot be entered")


def _check(result: int, what: str) -> None:
    if result:
        raise CannotCreateError(f"{what}: {os.strerror(ctypes.get_errno())}")
