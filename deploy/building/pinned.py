"""Pinned wheels of an installation: requirements in the constraints' versions.

Requirements are those of the wheels' metadata, versions those of deploy/constraints.txt.

Every version is pinned, so nothing has to be resolved. pip itself would evaluate the markers of requirements
(``python_version < "3.13"``) for the Python that it runs in, not for that of the wheels.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Mapping
from email.parser import BytesParser
from pathlib import Path
from typing import NamedTuple

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from system_packages import fail

from building.tools import pins, run

#: The oldest supported system has this glibc or a newer one: Debian 12 has 2.36.
_GLIBC = 36
_LEGACY = {"manylinux2014": 17, "manylinux2010": 12, "manylinux1": 5}


class Target(NamedTuple):
    """A kind of machine: CPython's version ("3.11") and the machine in uname(1)'s terms ("x86_64")."""

    python: str
    machine: str

    def markers(self) -> dict[str, str]:
        """Values used by markers of requirements."""
        full = f"{self.python}.0"
        own = {"python_version": self.python, "python_full_version": full, "implementation_version": full}
        here = {name: str(value) for name, value in default_environment().items()}  # CPython on Linux, like the target
        return {**here, **own, "platform_machine": self.machine}

    def pip_options(self) -> list[str]:
        """Options that make pip choose wheels for this target, whatever pip itself runs on."""
        tags = [f"manylinux_2_{minor}" for minor in range(_GLIBC, 4, -1)] + list(_LEGACY)
        platforms = [part for tag in tags for part in ("--platform", f"{tag}_{self.machine}")]
        return ["--only-binary=:all:", "--implementation=cp", f"--python-version={self.python}", *platforms]


def extras(wheel: Path) -> list[str]:
    """The extras of a wheel."""
    return _header(wheel, "Provides-Extra")


def version(wheel: Path) -> str:
    """The version of a wheel, from its name."""
    return str(parse_wheel_filename(wheel.name)[1])


def collect(ours: Path, wanted: frozenset[str], target: Target, cache: Path) -> dict[str, Path]:
    """Name -> wheel of all that ``ours`` needs with the ``wanted`` extras, itself included; downloads into ``cache``.

    Exits with 69 for packages that are not pinned, not as pinned, or not available as a wheel for the target.
    """
    root = canonicalize_name(parse_wheel_filename(ours.name)[0])
    found: dict[str, Path] = {root: ours}
    asked: dict[str, frozenset[str]] = {}
    open_: dict[str, frozenset[str]] = {root: wanted}
    while open_:
        asked |= open_
        needed: dict[str, frozenset[str]] = {}
        for name, chosen in open_.items():
            for requirement in _requirements(found[name], chosen, target.markers()):
                key = canonicalize_name(requirement.name)
                _check(requirement, found.get(key), name)
                needed[key] = needed.get(key, frozenset()) | requirement.extras
        _download([name for name in needed if name not in found], found, target, cache)
        open_ = {
            name: asked.get(name, frozenset()) | chosen
            for name, chosen in needed.items()
            if name not in asked or not chosen <= asked[name]
        }
    return dict(sorted(found.items()))


def _requirements(wheel: Path, chosen: frozenset[str], markers: Mapping[str, str]) -> Iterator[Requirement]:
    for line in _header(wheel, "Requires-Dist"):
        requirement = Requirement(line)
        contexts = [{**markers, "extra": extra} for extra in ("", *sorted(chosen))]
        if requirement.marker is None or any(map(requirement.marker.evaluate, contexts)):
            yield requirement


def _check(requirement: Requirement, found: Path | None, asking: str) -> None:
    name = canonicalize_name(requirement.name)
    pinned = version(found) if found else pins().get(name)
    if pinned is None:
        fail(f"{asking} needs {requirement}, which deploy/constraints.txt does not pin: add {name}==VERSION there")
    if not requirement.specifier.contains(pinned, prereleases=True):
        fail(f"{asking} needs {requirement}, but deploy/constraints.txt pins {pinned}")


def _download(names: list[str], found: dict[str, Path], target: Target, cache: Path) -> None:
    if not names:
        return
    cache.mkdir(parents=True, exist_ok=True)
    versions = pins()
    pinned = [f"{name}=={versions[name]}" for name in sorted(names)]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]
    run(
        [*pip, *target.pip_options(), "--dest", cache, *pinned],
        f"pip could not download {', '.join(pinned)} as wheels for Python {target.python} on {target.machine}",
    )
    for path in cache.glob("*.whl"):
        name, number, _, _ = parse_wheel_filename(path.name)
        if name in names and str(number) == str(Requirement(f"x=={versions[name]}").specifier).removeprefix("=="):
            found[name] = path


def _header(wheel: Path, name: str) -> list[str]:
    with zipfile.ZipFile(wheel) as content:
        (path,) = [each for each in content.namelist() if each.endswith(".dist-info/METADATA") and each.count("/") == 1]
        return BytesParser().parsebytes(content.read(path), headersonly=True).get_all(name, [])
