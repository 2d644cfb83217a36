"""Every error that shardpulse raises on purpose, and every exit code, in one place.

::

    ShardpulseError            1   something failed, the message says what to do
    ├── UsageError             2   the command line is wrong (argparse uses 2 as well)
    ├── DataError             65   input was read and is not acceptable
    │   └── FrameError        65   bytes that are no frame, table, position or record
    ├── NoInputError          66   a file cannot be opened or is empty
    ├── UnavailableError      69   shards, a server binary or a tool cannot be reached
    │   └── ShardError        69   a shard answered with an error or not at all
    │       └── MovedError    69   the key is another shard's by now
    ├── CannotCreateError     73   a file, directory, port or core cannot be had
    ├── TemporaryError        75   try again: LOADING, CLUSTERDOWN, TRYAGAIN, OOM
    ├── PermissionRefused     77   NOAUTH, NOPERM, WRONGPASS
    └── ConfigError           78   the configuration is wrong: file, line or key
        └── AdmissionError    78   a shard that nothing may be said to as things are configured

Codes follow sysexits.h; 70 is any other exception, 76 is a verdict of ``shardpulse status`` and no error. Long-running
commands (probe, filter, top, demo) stopped by SIGINT or SIGTERM end in order and
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

#: Exit code -> what it means to the person who sees it (README and ``--help`` print this).
EXIT_CODES: dict[int, str] = {
    EXIT_OK: "done",
    EXIT_FAILURE: "failed: the message on stderr says what to do",
    EXIT_USAGE: "the command line is wrong",
    EXIT_DATA: "the input was read and is not acceptable",
    EXIT_NO_INPUT: "an input file cannot be read",
    EXIT_UNAVAILABLE: "a shard, a server binary or a tool cannot be reached",
    EXIT_INTERNAL: "a fault of shardpulse itself: please report it",
    EXIT_CANNOT_CREATE: "a file, port or core cannot be had",
    EXIT_TEMPORARY: "a shard cannot answer now: try again",
    EXIT_UNBALANCED: "the books do not balance: counts that must agree do not",
    EXIT_PERMISSION: "a shard refused the credentials",
    EXIT_CONFIG: "the configuration is wrong",
    EXIT_INTERRUPTED: "stopped by Ctrl-C",
}
_PARTLY_SEEN = "some shards or hosts can be seen and some not; what can be is shown"
_NO_SAMPLES = "there is no host: none has sent samples yet, or all have expired"
_DECIDING = {
    66: "", 69: _PARTLY_SEEN, 75: f"{_NO_SAMPLES}, or too few for the rule on any host", 77: "", 78: "", 130: "",
}  # fmt: skip
#: Command -> the codes with which it may end beside 0, 2 and 70, each with what else it means there, if anything.
COMMANDS: dict[str, dict[int, str]] = {
    "archive": dict.fromkeys((65, 66, 69, 73, 75, 76, 77, 78), ""),
    "capture": dict.fromkeys((73, 130), ""),
    "certificates": dict.fromkeys((1, 65, 66, 69, 73), ""),
    "config": dict.fromkeys((66, 78), ""),
    "demo": dict.fromkeys((1, 69, 73, 75), ""),
    "filter": dict.fromkeys((66, 69, 75, 77, 78), ""),
    "hosts": {
        65: "there is no host of the name that is to be forgotten", 66: "", 69: "",
        75: "the host that is to be forgotten still sends, or may do so", 77: "", 78: "", 130: "",
    },
    "keys": dict.fromkeys((66, 73, 78), ""),
    "metrics": {
        66: "", 69: "some shards could be read and some not; what could be read is printed", 73: "",
        75: f"{_NO_SAMPLES}; the health of the pipeline is printed", 77: "", 78: "", 130: "",
    },
    "probe": dict.fromkeys((66, 69, 73, 78), ""),
    "query": {
        65: "no host, resource set, entity or metric matches a pattern", 66: "", 69: _PARTLY_SEEN, 75: _NO_SAMPLES,
        77: "", 78: "", 130: "",
    },
    "query hot": _DECIDING,
    "query moves": _DECIDING,
    "query neighbours": {
        65: "there is no host of that name", 66: "", 69: _PARTLY_SEEN, 75: _NO_SAMPLES, 77: "", 78: "", 130: "",
    },
    "query vms": {65: "no VM matches a pattern", 66: "", 69: _PARTLY_SEEN, 75: _NO_SAMPLES, 77: "", 78: "", 130: ""},
    "replay": dict.fromkeys((65, 66, 69, 75, 77, 78), ""),
    "serve": dict.fromkeys((66, 69, 73, 77, 78), ""),
    "shards": dict.fromkeys((65, 66, 69, 73, 75, 78), ""),
    "status": {
        0: "samples are lost and counted (`lost` says how many; --lossless makes it 76)",
        65: "there is no host of the name that --host gives", 66: "",
        69: "a filter worker or a replica is missing, a part is behind, a probe is silent", 75: _NO_SAMPLES,
        76: "", 77: "", 78: "", 130: "",
    },
    "top": {
        0: "stopped by q, Ctrl-C or SIGTERM", 65: "there is no host of the name that --host gives", 66: "",
        69: f"--once, --json: {_PARTLY_SEEN}", 75: f"--once, --json: {_NO_SAMPLES}", 77: "", 78: "",
    },
}  # fmt: skip


class ShardpulseError(Exception):
    """Base of all deliberate errors; ``exit_code`` is what a command exits with."""

    exit_code = EXIT_FAILURE


class UsageError(ShardpulseError):
    """The command line asks for something that makes no sense."""

    exit_code = EXIT_USAGE


class DataError(ShardpulseError):
    """Input that was read and is not acceptable."""

    exit_code = EXIT_DATA


class FrameError(DataError):
    """Bytes that are no frame, table, position or smoothed record.

    ``reason`` is one short word for counters: ``short magic version newer kind crc
    shape flags payload signature internal``.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class NoInputError(ShardpulseError):
    """A file that was named cannot be opened, or holds nothing."""

    exit_code = EXIT_NO_INPUT


class UnavailableError(ShardpulseError):
    """Something outside the program cannot be reached."""

    exit_code = EXIT_UNAVAILABLE


class ShardError(UnavailableError):
    """A shard does not answer, or answers with an error that will not go away by itself."""


class MovedError(ShardError):
    """A shard answered MOVED or ASK: the key is another one's by now, in the order of things."""


class CannotCreateError(ShardpulseError):
    """A file, directory, port or core cannot be had."""

    exit_code = EXIT_CANNOT_CREATE


class TemporaryError(ShardpulseError):
    """A shard cannot do it now: LOADING, CLUSTERDOWN, TRYAGAIN, OOM, READONLY."""

    exit_code = EXIT_TEMPORARY


class PermissionRefused(ShardpulseError):
    """A shard refused the user or password: NOAUTH, NOPERM, WRONGPASS."""

    exit_code = EXIT_PERMISSION


class ConfigError(ShardpulseError):
    """The configuration is wrong; the message names file, line or key."""

    exit_code = EXIT_CONFIG


class AdmissionError(ConfigError):
    """A shard that nothing may be said to: on another machine without TLS or without a user, or too old."""
