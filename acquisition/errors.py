"""Deliberate errors of shardpulse, and their exit codes.

::

    ShardpulseError            1   something failed, with the remedy in the message
    ├── UsageError             2   the command line is wrong (argparse uses 2 as well)
    ├── DataError             65   input was read and is invalid
    │   └── FrameError        65   bytes are not a valid frame, table, position or record
    ├── NoInputError          66   a file cannot be opened or is empty
    ├── UnavailableError      69   shards, a server binary or a tool cannot be reached
    │   └── ShardError        69   a shard answered with an error or not at all
    │       └── MovedError    69   the key now belongs to another shard
    ├── CannotCreateError     73   a file, directory, port or core is not available
    ├── TemporaryError        75   try again: LOADING, CLUSTERDOWN, TRYAGAIN, OOM
    ├── PermissionRefused     77   NOAUTH, NOPERM, WRONGPASS
    └── ConfigError           78   the configuration is wrong: file, line or key
        └── AdmissionError    78   the configuration does not permit a connection to a shard

Codes follow sysexits.h; 70 is any other exception, 76 is a verdict of ``shardpulse status``, not an error. Long-running
commands (probe, filter, top, demo) stopped by SIGINT or SIGTERM shut down in order and
exit with 0; other commands exit with 130 on SIGINT.
"""

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_DATA = 65
EXIT_NO_INPUT = 66
EXIT_UNAVAILABLE = 69
EXIT_INTERNAL = 70
EXIT_CANNOT_CREATE = 73
EXIT_TEMPORARY = 75
EXIT_UNBALANCED = 76
EXIT_PERMISSION = 77
EXIT_CONFIG = 78
EXIT_INTERRUPTED = 130

#: Exit code -> its meaning for the user (shown in README and by ``--help``).
EXIT_CODES: dict[int, str] = {
    EXIT_OK: "done",
    EXIT_FAILURE: "failure; the message on stderr explains it",
    EXIT_USAGE: "invalid command line",
    EXIT_DATA: "invalid input",
    EXIT_NO_INPUT: "input file cannot be read",
    EXIT_UNAVAILABLE: "shard, server binary or tool unavailable",
    EXIT_INTERNAL: "internal error (bug): please report it",
    EXIT_CANNOT_CREATE: "file, port or core unavailable",
    EXIT_TEMPORARY: "shard temporarily unavailable: try again",
    EXIT_UNBALANCED: "books do not balance: sample counts disagree",
    EXIT_PERMISSION: "credentials refused by a shard",
    EXIT_CONFIG: "invalid configuration",
    EXIT_INTERRUPTED: "interrupted by Ctrl-C",
}
_PARTLY_SEEN = "partial result: some shards or hosts are not visible"
_NO_SAMPLES = "no hosts: none has sent samples yet, or all have expired"
_DECIDING = {
    66: "", 69: _PARTLY_SEEN, 75: f"{_NO_SAMPLES}, or no host has enough samples for the rule", 77: "", 78: "", 130: "",
}  # fmt: skip
#: Command -> its possible exit codes beside 0, 2 and 70, each with its additional meaning there, if any.
COMMANDS: dict[str, dict[int, str]] = {
    "archive": dict.fromkeys((65, 66, 69, 73, 75, 76, 77, 78), ""),
    "capture": dict.fromkeys((73, 130), ""),
    "certificates": dict.fromkeys((1, 65, 66, 69, 73), ""),
    "config": dict.fromkeys((66, 78), ""),
    "demo": dict.fromkeys((1, 69, 73, 75), ""),
    "filter": dict.fromkeys((66, 69, 75, 77, 78), ""),
    "hosts": {
        65: "unknown host", 66: "", 69: "",
        75: "the host is still sending, or may be", 77: "", 78: "", 130: "",
    },
    "keys": dict.fromkeys((66, 73, 78), ""),
    "metrics": {
        66: "", 69: "partial result: some shards could not be read", 73: "",
        75: f"{_NO_SAMPLES}; pipeline health is still printed", 77: "", 78: "", 130: "",
    },
    "probe": dict.fromkeys((66, 69, 73, 78), ""),
    "query": {
        65: "a pattern matches no host, resource set, entity or metric", 66: "", 69: _PARTLY_SEEN, 75: _NO_SAMPLES,
        77: "", 78: "", 130: "",
    },
    "query hot": _DECIDING,
    "query moves": _DECIDING,
    "query neighbours": {
        65: "unknown host", 66: "", 69: _PARTLY_SEEN, 75: _NO_SAMPLES, 77: "", 78: "", 130: "",
    },
    "query place": _DECIDING,
    "query vms": {65: "a pattern matches no VM", 66: "", 69: _PARTLY_SEEN, 75: _NO_SAMPLES, 77: "", 78: "", 130: ""},
    "replay": dict.fromkeys((65, 66, 69, 75, 77, 78), ""),
    "serve": dict.fromkeys((66, 69, 73, 77, 78), ""),
    "shards": dict.fromkeys((65, 66, 69, 73, 75, 78), ""),
    "status": {
        0: "samples were lost and counted, see `lost` (76 with --lossless)",
        65: "unknown host in --host", 66: "",
        69: "filter worker or replica missing, backlog, or silent probe", 75: _NO_SAMPLES,
        76: "", 77: "", 78: "", 130: "",
    },
    "top": {
        0: "stopped by q, Ctrl-C or SIGTERM", 65: "unknown host in --host", 66: "",
        69: f"--once, --json: {_PARTLY_SEEN}", 75: f"--once, --json: {_NO_SAMPLES}", 77: "", 78: "",
    },
}  # fmt: skip


class ShardpulseError(Exception):
    """Base of all deliberate errors; ``exit_code`` is the exit code of a command."""

    exit_code = EXIT_FAILURE


class UsageError(ShardpulseError):
    """A command line that makes no sense."""

    exit_code = EXIT_USAGE


class DataError(ShardpulseError):
    """Input that was read and is invalid."""

    exit_code = EXIT_DATA


class FrameError(DataError):
    """Bytes that are not a valid frame, table, position or smoothed record.

    ``reason`` is one short word for counters: ``short magic version newer kind crc
    shape flags payload signature internal``.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class NoInputError(ShardpulseError):
    """A named file cannot be opened, or is empty."""

    exit_code = EXIT_NO_INPUT


class UnavailableError(ShardpulseError):
    """Something outside the program cannot be reached."""

    exit_code = EXIT_UNAVAILABLE


class ShardError(UnavailableError):
    """A shard does not answer, or answers with an error that will not pass by itself."""


class MovedError(ShardError):
    """A shard answered MOVED or ASK: the key now belongs to another one, as part of normal operation."""


class CannotCreateError(ShardpulseError):
    """A file, directory, port or core is not available."""

    exit_code = EXIT_CANNOT_CREATE


class TemporaryError(ShardpulseError):
    """A shard cannot execute a command now: LOADING, CLUSTERDOWN, TRYAGAIN, OOM, READONLY."""

    exit_code = EXIT_TEMPORARY


class PermissionRefused(ShardpulseError):
    """A shard refused the user or password: NOAUTH, NOPERM, WRONGPASS."""

    exit_code = EXIT_PERMISSION


class ConfigError(ShardpulseError):
    """The configuration is wrong; the message names file, line or key."""

    exit_code = EXIT_CONFIG


class AdmissionError(ConfigError):
    """Connection to a shard not permitted: on another machine without TLS or without a user, or too old."""
