"""Extras of setup.cfg that commands need, named when one is not installed.

The package itself has no requirements, so that a probe's host gets only what a probe needs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from acquisition.errors import EXIT_UNAVAILABLE, UnavailableError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from types import TracebackType

#: Commands with another name than their extra.
_OTHERS = {
    "replay": "probe", "capture": "probe", "config": "probe", "keys": "probe",
    "status": "query", "top": "query", "metrics": "query", "hosts": "query",
}  # fmt: skip
#: A file in environments made by the module python_environment of deploy/.
DEPLOYED = "complete"
_OURS = ("acquisition", "probes", "filters", "experiments", "tests")


def of(command: str) -> str:
    """Extra that provides all imports of a command."""
    return _OTHERS.get(command, command)


def missing(command: str, error: ModuleNotFoundError) -> UnavailableError | None:
    """Message for the user about a module that a command could not import; None for one of our own, which is a
    bug."""
    module = _foreign(error)
    if not module:
        return None
    return UnavailableError(f"{command} requires the package {module}: {how_to_install(of(command))}")


def how_to_install(extra: str) -> str:
    """Advice on adding an extra to this installation: its checkout or its wheel by path. A bare name, on an index,
    may belong to anyone."""
    if place := _place():
        return f"pip install '{place}[{extra}]'"
    if (Path(sys.prefix) / DEPLOYED).exists():
        return "deploy/site.yml installs it on hosts that need it; otherwise run this on the controller"
    return f"pip install --no-index --find-links WHEELS 'shardpulse[{extra}]', with WHEELS of deploy/build wheelhouse"


def _place() -> Path | None:
    """This checkout; else the directory or wheel pip installed it from, if it still exists."""
    checkout = Path(__file__).resolve().parents[1]
    if (checkout / "setup.cfg").exists():
        return checkout
    from importlib.metadata import PackageNotFoundError, distribution
    from json import loads
    from urllib.parse import unquote, urlsplit

    try:
        origin = urlsplit(loads(distribution("shardpulse").read_text("direct_url.json") or "{}").get("url", ""))
    except (PackageNotFoundError, ValueError):
        return None
    place = Path(unquote(origin.path))
    return place if origin.scheme == "file" and place.exists() else None


def is_absent(entry: EntryPoint, error: Exception) -> bool:
    """Whether, by ``error``, an entry point belongs to a part of this project whose extra is not installed."""
    ours = entry.value.partition(".")[0] in _OURS
    return ours and isinstance(error, ModuleNotFoundError) and bool(_foreign(error))


def _foreign(error: ModuleNotFoundError) -> str:
    """The missing package; "" for a module of our own."""
    module = (error.name or "").partition(".")[0]
    return "" if module in _OURS else module


def explain() -> None:
    """End ``python -m`` of a module of the checkout with one sentence and exit code 69 if a package is missing.

    Packages with such modules call it on import; in any other process it does nothing.
    """
    options = sys.orig_argv
    name = options[options.index("-m") + 1] if sys.argv[0] == "-m" and "-m" in options else ""
    if name.partition(".")[0] not in _OURS:
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        module = _foreign(error) if isinstance(error, ModuleNotFoundError) else ""
        if not module:
            return sys.__excepthook__(kind, error, trace)
        python = '"$(python3 deploy/environment.py --extra test)/bin/python"'
        has = "installed in the project's environment"
        print(f"{name} requires the package {module}, {has}: run {python} -m {name}", file=sys.stderr)
        raise SystemExit(EXIT_UNAVAILABLE)

    sys.excepthook = hook
