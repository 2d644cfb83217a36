"""Verdict on a snapshot: messages on stderr and the exit code of a command."""

from __future__ import annotations

from acquisition.errors import EXIT_OK, EXIT_TEMPORARY, EXIT_UNAVAILABLE, TemporaryError
from acquisition.snapshot.snapshot import Snapshot
from acquisition.terminal import say


def warn(snapshot: Snapshot, command: str, goes_on: bool) -> None:
    """Print what could not be read or seen. Raises TemporaryError if there is no host, unless the command
    ``goes_on``, as for a document that reports it."""
    hostless = not goes_on and not (snapshot.blocks or snapshot.unread)
    for error in snapshot.errors:
        if not (hostless and error == snapshot.blind):
            say(f"{command}: warning: {error}")
    if hostless:
        raise TemporaryError(snapshot.blind)


def exit_code(snapshot: Snapshot) -> int:
    """EXIT_TEMPORARY if there is no host and nothing else is wrong, EXIT_UNAVAILABLE if something is."""
    if not (snapshot.blocks or snapshot.unread) and set(snapshot.errors) <= {snapshot.blind}:
        return EXIT_TEMPORARY
    return EXIT_UNAVAILABLE if snapshot.errors else EXIT_OK
