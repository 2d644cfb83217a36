"""``python -m experiments.chaos``: everything goes wrong for a while, and nothing may be lost."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from acquisition.errors import EXIT_FAILURE, EXIT_OK, CannotCreateError, ShardpulseError
from experiments.chaos import report, schedule
from experiments.chaos.options import Options, parse
from experiments.chaos.run import measure

_RESULTS = Path(__file__).resolve().parent.parent / "results"


def main(argv: list[str]) -> int:
    """Run, print, and answer the exit code."""
    try:
        options, given = parse(argv)
        if given.schedule:
            _print_schedule(options)
            return EXIT_OK
        directory = _directory(options)
        outcome = measure(options, directory)
    except ShardpulseError as error:
        print(f"chaos: {error}", file=sys.stderr)
        return error.exit_code
    found = report.document(argv, options, outcome, str(directory))
    (directory / "report.json").write_text(json.dumps(found, indent=1) + "\n")
    if given.save:
        _RESULTS.mkdir(exist_ok=True)
        kept = {**found, "logs": ""} if found["passed"] else found
        (_RESULTS / f"{given.save}.json").write_text(json.dumps(kept, indent=1) + "\n")
    print(json.dumps(found) if given.json else report.format_text(found))
    if found["passed"] and not options.keep:
        shutil.rmtree(directory, ignore_errors=True)
    return EXIT_OK if found["passed"] else EXIT_FAILURE


def _directory(options: Options) -> Path:
    """Where the logs of this run lie. Raises CannotCreateError."""
    try:
        if not options.keep:
            return Path(tempfile.mkdtemp(prefix=f"shardpulse-chaos-{options.seed}-"))
        directory = Path(options.keep).absolute()
        directory.mkdir(parents=True)
        return directory
    except OSError as error:
        raise CannotCreateError(f"the directory for the logs cannot be made: {error}") from error


def _print_schedule(options: Options) -> None:
    for fault in schedule.make(options.seed, options.seconds, options.scene, options.only):
        print(f"{fault.at:8.1f} s  {fault.kind:18} {fault.target}  for {fault.seconds:4.1f} s  {fault.size:g}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
