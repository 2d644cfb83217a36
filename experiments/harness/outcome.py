"""Outcome of a benchmark: command line, and a document saved and printed."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from acquisition.errors import EXIT_FAILURE, EXIT_OK, UsageError
from experiments.harness import machine, runs

RESULTS = Path(__file__).resolve().parents[1] / "results"
Value = TypeVar("Value")


#: Options common to many programs: their metavariables and help texts.
_COMMON = {
    "hosts": ("N", "emulated hosts, one connection each"),
    "entities": ("N", "rows of a frame: the host and its VMs"),
    "metrics": ("N", "columns of a frame"),
    "seconds": ("S", "length of the measured window"),
    "warm_up": ("S", "time before the window"),
    "shards": ("N", "pinned redis-servers; 0: one per core"),
    "repeats": ("N", "runs; medians are printed"),
    "seed": ("N", "determines every value"),
}
_EXIT_CODES = """

exit codes: 0 done, and everything is as it must be, 1 not so: the last lines say what, 2 wrong options,
69 cannot start, or a part could not be reached, 73 no port, core, file or namespace could be had"""


def parser(
    experiment: str, description: str, examples: str, saved: str = "NAME.json", **common: float
) -> argparse.ArgumentParser:
    """The command line of ``python -m experiments.EXPERIMENT``, with ``--json`` and ``--save`` (``saved`` describes the
    files it writes), and the ``common`` options with their defaults."""
    made = bare_parser(experiment, description, examples + _EXIT_CODES)
    made.add_argument("--json", action="store_true", help="print one JSON document")
    made.add_argument("--save", metavar="NAME", help=f"write {saved} to experiments/results as well")
    add_archive(made)
    for name, default in common.items():
        unit, told = _COMMON[name]
        made.add_argument(
            f"--{name.replace('_', '-')}", type=type(default), default=default, metavar=unit,
            help=f"{told} (default %(default)s)",
        )  # fmt: skip
    return made


def add_archive(made: argparse.ArgumentParser) -> None:
    """The option ``--archive``."""
    told = "keep the run in the table runs of an archive: PATH or postgresql://…"
    made.add_argument("--archive", metavar="URL", type=runs.place, help=told)


def bare_parser(experiment: str, description: str | None, examples: str = "") -> argparse.ArgumentParser:
    """A parser without any option."""
    return argparse.ArgumentParser(
        prog=f"python -m experiments.{experiment}",
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def filled(kind: Callable[..., Value], given: argparse.Namespace) -> Value:
    """A value of a class with fields named as options; fields without an option keep their default."""
    fields = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in vars(given).items() if name in fields})


def require_positive(given: argparse.Namespace, *names: str) -> None:
    """Raises UsageError naming the first of these options that is not above zero."""
    for name in names:
        if getattr(given, name) <= 0:
            raise UsageError(f"--{name.replace('_', '-')} must be positive")


def document(
    experiment: str, argv: list[str], failures: list[str], figures: Mapping[str, Any], missed: Sequence[str] = ()
) -> dict[str, Any]:
    """Document of a measurement, with its origin; it has passed without ``failures``, which invalidate it, and without
    ``missed`` targets."""
    return {
        **machine.provenance(argv, f"experiments.{experiment}"),
        "machine": machine.describe(),
        "passed": not failures and not missed,
        "failures": failures,
        "missed": list(missed),
        **figures,
    }


def first(reasons: Sequence[object], most: int) -> list[str]:
    """The first of many reasons, in words, and the number of others."""
    told, more = [str(reason) for reason in reasons[:most]], len(reasons) - most
    return [*told, f"and {more} more"] if more > 0 else told


def conclude(
    document: Mapping[str, Any], given: argparse.Namespace, text: Callable[[dict[str, Any]], list[str]] | None = None
) -> int:
    """Save a document as requested by ``--save`` and ``--archive``, print it, as JSON or as the text made by ``text``
    with its origin and why it has not passed, and return the exit code for its ``passed``."""
    if given.save:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{given.save}.json").write_text(json.dumps(document, indent=1) + "\n")
    if given.archive:
        runs.keep(given.archive, document)
    if given.json:
        print(json.dumps(document))
    else:
        found = dict(document)
        wrong = [f"FAILED: {reason}" for reason in [*found["failures"], *found["missed"]] if isinstance(reason, str)]
        told = text(found) if text else [json.dumps(found, indent=1)]
        print("\n".join([*_origin(found), *told, *wrong]))
    return EXIT_OK if document["passed"] else EXIT_FAILURE


def _origin(document: Mapping[str, Any]) -> list[str]:
    where = document["machine"]
    server = f", {where['redis_server']}" if where["redis_server"] else ""
    return [
        document["command"],
        f"{where['cpu']}, {where['cores']} cores, Linux {where['kernel']}, Python {where['python']}{server}, "
        f"numpy {where['packages']['numpy']}",
        f"commit {document['commit'] or 'unknown'}, {document['date']}",
        "",
    ]
