"""How a benchmark begins and ends: its command line, and one document that is saved and printed."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from acquisition.errors import EXIT_FAILURE, EXIT_OK, UsageError
from experiments.harness import machine

RESULTS = Path(__file__).resolve().parents[1] / "results"
Value = TypeVar("Value")


def parser(experiment: str, description: str, examples: str, saved: str = "NAME.json") -> argparse.ArgumentParser:
    """The command line of ``python -m experiments.EXPERIMENT``, with ``--json`` and ``--save``; ``saved`` says in words
    what the latter writes."""
    made = bare_parser(experiment, description, examples)
    made.add_argument("--json", action="store_true", help="print one JSON document")
    made.add_argument("--save", metavar="NAME", help=f"write {saved} to experiments/results as well")
    return made


def bare_parser(experiment: str, description: str | None, examples: str = "") -> argparse.ArgumentParser:
    """The same without any option."""
    return argparse.ArgumentParser(
        prog=f"python -m experiments.{experiment}",
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def filled(kind: Callable[..., Value], given: argparse.Namespace) -> Value:
    """A value of a class whose fields have the names of options; fields that are no option keep their default."""
    fields = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in vars(given).items() if name in fields})


def require_positive(given: argparse.Namespace, *names: str) -> None:
    """Raises UsageError that names the first of these options that is not above zero."""
    for name in names:
        if getattr(given, name) <= 0:
            raise UsageError(f"--{name.replace('_', '-')} must be positive")


def document(
    experiment: str, argv: list[str], failures: list[str], figures: Mapping[str, Any], missed: Sequence[str] = ()
) -> dict[str, Any]:
    """What was measured, with where it comes from; it has passed if there are no ``failures``, for which it does not
    count, and no targets were ``missed``."""
    return {
        **machine.provenance(argv, f"experiments.{experiment}"),
        "machine": machine.describe(),
        "passed": not failures and not missed,
        "failures": failures,
        "missed": list(missed),
        **figures,
    }


def complaints(document: Mapping[str, Any]) -> list[str]:
    """Why it has not passed, line by line, for people."""
    return [f"FAILED: {reason}" for reason in [*document["failures"], *document.get("missed", ())]]


def conclude(
    document: Mapping[str, Any], given: argparse.Namespace, text: Callable[[dict[str, Any]], str] | None = None
) -> int:
    """Save a document where ``--save`` says so, print it (or what ``text`` makes of it), and answer the exit code
    that its ``passed`` means."""
    if given.save:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{given.save}.json").write_text(json.dumps(document, indent=1) + "\n")
    if given.json or text is None:
        print(json.dumps(document, indent=None if given.json else 1))
    else:
        print(text(dict(document)))
    return EXIT_OK if document["passed"] else EXIT_FAILURE
