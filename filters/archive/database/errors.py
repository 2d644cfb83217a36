"""Errors of the archive's database; driver errors do not leave this room."""

from __future__ import annotations

from acquisition.errors import EXIT_CANNOT_CREATE, EXIT_PERMISSION, EXIT_TEMPORARY, EXIT_UNAVAILABLE, ShardpulseError


class ArchiveError(ShardpulseError):
    """Base of the archive's errors. ``passing``: it may be temporary; writers wait."""

    passing = False


class ArchiveUnavailable(ArchiveError):
    """The database cannot be reached, is starting, stopping or locked, or has closed the connection.

    Whether a commit that fails in this way is durable is unknown: ``Store.cursors`` shows it by the commit id.
    """

    exit_code = EXIT_UNAVAILABLE
    passing = True


class ArchiveReadOnly(ArchiveError):
    """The database accepts no writes now: a standby, or a read-only file or file system."""

    exit_code = EXIT_TEMPORARY
    passing = True


class ArchiveFull(ArchiveError):
    """The disk of the database is full; nothing of the transaction was written."""

    exit_code = EXIT_CANNOT_CREATE
    passing = True


class ArchiveRefused(ArchiveError):
    """The database rejects the user, the password or an operation not permitted to the user."""

    exit_code = EXIT_PERMISSION


class ArchiveRejected(ArchiveError):
    """Part of a batch can never be stored: ``filters.archive.following.sifting`` finds it. Nothing was
    written."""


class ArchiveDamaged(ArchiveError):
    """Damaged state of a partition in the database."""


class SchemaTooOld(ArchiveError):
    """The database has no schema yet or an older one: run ``shardpulse archive migrate``."""

    passing = True


class SchemaTooNew(ArchiveError):
    """A newer shardpulse has migrated the database: upgrade this one."""
