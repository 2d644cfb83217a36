"""Cluster lock: at most one operator moves partitions or replicas at a time.

The note is a key with an expiry that the command renews while it works, so that a command that was killed, or whose
machine died, blocks others for no longer than ``LIFE``. It is in one slot. If that slot has no owner, as after the
death of a master without a replica, commands that mend the cluster continue without a note, and report that.
"""

from __future__ import annotations

import getpass
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime

from acquisition.errors import AdmissionError, FrameError, PermissionRefused, ShardpulseError, TemporaryError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address
from acquisition.link.trust.credentials import Credentials
from acquisition.wire import keys, lease
from acquisition.wire.lease import Operating

LIFE = 30.0  #: lifetime of a note in seconds without renewal
_RENEWALS = 3  #: per lifetime, so that one may fail
_TRIES = 3  #: a note may end between two attempts


@contextmanager
def only(
    addresses: Sequence[Address],
    user: Credentials | None,
    what: str,
    say: Callable[[str], object],
    life: float = LIFE,
) -> Iterator[None]:
    """While this block runs, no other command that moves something can begin; ``what`` is shown to the others.

    To be used in the main thread. Raises TemporaryError if another one is already at work, or has begun because our
    note was lost together with a shard: then the work here stops where it is, as after Ctrl-C.
    """
    with closing(Cluster(addresses, user)) as cluster:
        note = _mine(what)
        try:
            _take(cluster, note, life)
        except (PermissionRefused, AdmissionError):
            raise
        except _OthersError as error:
            raise TemporaryError(str(error)) from None
        except ShardpulseError as error:
            say(f"could not take the cluster lock; concurrent changes are possible: {error}")
            yield
            return
        renewal = _Renewal(cluster, note, life)
        try:
            yield
        except KeyboardInterrupt:
            if renewal.overtaken:
                raise TemporaryError(f"command aborted: {renewal.overtaken}") from None
            raise
        finally:
            renewal.end()
            _release(cluster, note)


class _OthersError(TemporaryError):
    """Cluster lock held by another operator."""


class _Renewal:
    """Thread that renews the lock and interrupts the main thread if another operator takes it."""

    def __init__(self, cluster: Cluster, note: Operating, life: float) -> None:
        self.overtaken = ""
        self._cluster, self._note, self._life = cluster, note, life
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cluster lock", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Wait until the thread has ended."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._life / _RENEWALS):
            try:
                _renew(self._cluster, self._note, self._life)
            except _OthersError as error:
                self.overtaken = str(error)
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                return
            except ShardpulseError:  # the slot is being moved, or its shard is gone: the next attempt may succeed
                continue


def _mine(what: str) -> Operating:
    return Operating(
        secrets.token_hex(8), getpass.getuser(), socket.gethostname(), os.getpid(), what, int(time.time() * 1000)
    )


def _take(cluster: Cluster, note: Operating, life: float) -> None:
    for _ in range(_TRIES):
        if _set(cluster, note, life, "NX"):
            return
        found = cluster.call(keys.OPERATING, "GET", keys.OPERATING)
        if found is not None:
            raise _OthersError(_holder(found, life))


def _renew(cluster: Cluster, note: Operating, life: float) -> None:
    """Renew the lock, or set it again if it is gone. Raises _OthersError if another operator holds it."""
    found = cluster.call(keys.OPERATING, "GET", keys.OPERATING)
    if found is None:
        _take(cluster, note, life)
    elif not _is(found, note):
        raise _OthersError(_holder(found, life))
    else:
        _set(cluster, note, life, "XX")


def _release(cluster: Cluster, note: Operating) -> None:
    try:
        if _is(cluster.call(keys.OPERATING, "GET", keys.OPERATING), note):
            # the user `operator` may not delete keys; in a millisecond this one is gone
            _set(cluster, note, 0.001, "XX")
    except ShardpulseError:
        pass  # it expires by itself


def _set(cluster: Cluster, note: Operating, life: float, condition: str) -> bool:
    milliseconds = str(max(1, round(life * 1000)))
    return (
        cluster.call(keys.OPERATING, "SET", keys.OPERATING, lease.encode_note(note), condition, "PX", milliseconds)
        is not None
    )


def _is(found: bytes | None, note: Operating) -> bool:
    try:
        return found is not None and lease.decode_note(found).token == note.token
    except FrameError:
        return False


def _holder(found: bytes, life: float) -> str:
    try:
        other = lease.decode_note(found)
    except FrameError:
        return f"cluster lock is held: {keys.OPERATING} contains {found[:60]!r}; try again when it is gone"
    since = datetime.fromtimestamp(other.since_ms / 1000, UTC).strftime("%H:%M:%S UTC")
    return (
        f"{other.user}@{other.host} (process {other.pid}) holds the cluster lock for `{other.what}` since "
        f"{since}; try again when it is done, or in {life:.0f} s if it was killed"
    )
