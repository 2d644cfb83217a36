"""Errors of the archive's database; driver errors do not leave this room."""

from __future__ import annotations

from acquisition.errors import EXIT_CANNOT_CREATE, EXIT_PERMISSION, EXIT_TEMPORARY, EXIT_UNAVAILABLE, ShardpulseError


class ArchiveError(ShardpulseError):
    """Base of the archive's errors. ``passing``: it may be over later; writers wait."""

    passing = False


class ArchiveUnavailable(ArchiveError):
    """The database cannot be reached, is starting, ending or locked, or has cut the connection.

    Whether a commit that ends so is durable is not known: ``Store.cursors`` shows it by the commit id.
    """

    exit_code = EXIT_UNAVAILABLE
    passing = True


class ArchiveReadOnly(ArchiveError):
    """The database takes no writes now: a standby, a file or file system that is read-only."""

    exit_code = EXIT_TEMPORARY
    passing = True


class ArchiveFull(ArchiveError):
    """The disk of the database is full; nothing of the transaction was written."""

    exit_code = EXIT_CANNOT_CREATE
    passing = True


class ArchiveRefused(ArchiveError):
    """The database refuses the user, the password or what the user may do."""

    exit_code = EXIT_PERMISSION


class ArchiveRejected(ArchiveError):
    """Something in a batch cannot be stored, ever: ``filters.archive.following.sifting`` finds it. Nothing was
    written."""


class ArchiveDamaged(ArchiveError):
    """Damaged state of a partition in the database."""


class SchemaTooOld(ArchiveError):
    """The database has no schema yet or an older one: ``shardpulse archive migrate`` is to be run."""

    passing = True


class SchemaTooNew(ArchiveError):
    """A newer shardpulse has migrated the database: this one must be replaced."""
