"""Wheelhouse: wheels of chosen extras, for installation without an index."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from system_packages import say

from acquisition.errors import EXIT_USAGE
from building import bill, pinned, sums
from building.pinned import Target
from building.source import Source

REQUIREMENTS = "requirements.txt"


def collect(
    ours: Path, wanted: frozenset[str], targets: Sequence[Target], source: Source
) -> dict[Target, dict[str, Path]]:
    """Wheels of each target for the extras, by name. Exits with 2 for an unknown extra."""
    known = pinned.extras(ours)
    if unknown := sorted(wanted - set(known)):
        say(f"error: there is no extra {', '.join(unknown)}; known are {', '.join(known)}")
        raise SystemExit(EXIT_USAGE)
    by_target = {}
    for target in targets:
        # one directory each: pip would use an existing wheel with an older tag
        cache = source.directory.parent / f"wheels-{target.python}-{target.machine}"
        by_target[target] = pinned.collect(ours, wanted, target, cache)
    return by_target


def build(ours: Path, wanted: frozenset[str], targets: Sequence[Target], source: Source, out: Path) -> None:
    """Fill ``out``: wheels, requirements with hashes, bill of materials, sums."""
    by_target = collect(ours, wanted, targets, source)
    wheels = {path.name: path for found in by_target.values() for path in found.values()}
    for path in wheels.values():
        shutil.copyfile(path, out / path.name)
    (out / REQUIREMENTS).write_text(requirements(by_target, ours, wanted))
    bill.write(out / "bill.cdx.json", [out / name for name in sorted(wheels)], source, ours)
    sums.write(out)


def requirements(by_target: dict[Target, dict[str, Path]], ours: Path, wanted: frozenset[str]) -> str:
    """For ``pip install --require-hashes``: each package with version, hashes of its wheels, and its Pythons."""
    places: dict[str, dict[Target, Path]] = {}
    for target, found in by_target.items():
        for name, path in found.items():
            places.setdefault(name, {})[target] = path
    lines = ["# pip install --no-index --find-links DIR --require-hashes -r DIR/requirements.txt"]
    for name, paths in sorted(places.items()):
        chosen = f"[{','.join(sorted(wanted))}]" if ours in paths.values() and wanted else ""
        hashes = sorted({f"--hash=sha256:{sums.digest(path)}" for path in paths.values()})
        line = f"{name}{chosen}=={pinned.version(next(iter(paths.values())))}"
        lines.append(" \\\n    ".join([line + _only(list(paths), list(by_target)), *hashes]))
    return "\n".join(lines) + "\n"


def _only(has: list[Target], every: list[Target]) -> str:
    """Marker for packages not needed by every target."""
    if has == every:
        return ""
    each = (f'(python_version == "{target.python}" and platform_machine == "{target.machine}")' for target in has)
    return " ; " + " or ".join(each)


def empty(out: Path) -> None:
    """Remove only files of an earlier build: a directory with anything else is refused."""
    out.mkdir(parents=True, exist_ok=True)
    left = list(out.iterdir())
    if left and not (out / sums.NAME).exists():
        say(f"error: {out} holds something else (no {sums.NAME}): name an empty directory")
        raise SystemExit(EXIT_USAGE)
    for path in left:
        path.unlink()


def default_targets(pythons: str, machines: str) -> list[Target]:
    """Targets from two options, such as ``3.11,3.13`` and ``x86_64``."""
    return [Target(python, machine) for machine in _parts(machines) for python in _parts(pythons)]


def _parts(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
