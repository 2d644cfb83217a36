"""``python -m experiments.chaos``: everything goes wrong for a while, and nothing may be lost (root)."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from acquisition.errors import EXIT_OK, CannotCreateError
from experiments.chaos import report, schedule
from experiments.chaos.options import Options, parse
from experiments.chaos.run import measure
from experiments.harness import outcome
from experiments.processes import needs
from experiments.processes.program import program
from experiments.testbed import missing


@program("chaos")
def main(argv: list[str]) -> int:
    """Run, print, and answer the exit code; the logs stay when something did not hold."""
    options, given = parse(argv)
    if given.schedule:
        _print_schedule(options)
        return EXIT_OK
    needs.require(missing())
    directory, kept = _directory(options), bool(options.keep)
    try:
        ended = measure(options, directory)
        kept = kept or bool(ended.failures)
        found = report.document(argv, options, ended, str(directory) if kept else "")
        (directory / "report.json").write_text(json.dumps(found, indent=1) + "\n")
        return outcome.conclude(found, given, report.format_text)
    finally:
        if not kept:
            shutil.rmtree(directory, ignore_errors=True)


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
