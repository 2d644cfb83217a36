"""Imports run one way between packages and between rooms, read from the source of every module; rooms stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import ROOT

#: Package -> the packages that it may import. Nothing imports ``deploy`` or ``experiments``.
PACKAGES = {
    "acquisition": {"acquisition"},
    "probes": {"acquisition", "probes"},
    "filters": {"acquisition", "filters"},
    "deploy": {"acquisition", "probes", "filters", "deploy"},
    "experiments": {"acquisition", "probes", "filters", "experiments"},
}
PRODUCT = ("acquisition", "probes", "filters")
_VALUES = {"acquisition.model", "acquisition.config", "acquisition.wire", "acquisition.snapshot"}
#: Room -> the rooms, or modules of them, that it may import beside itself. Modules that lie directly in ``acquisition``
#: (errors, help texts, plugins) are for everybody and import no room. tests/experiments/test_rooms.py is of the others.
ROOMS = {
    "acquisition.certificates": set(),
    "acquisition.model": set(),
    "acquisition.wire": {"acquisition.model"},
    "acquisition.link": {"acquisition.model", "acquisition.wire"},
    "acquisition.config": {"acquisition.model", "acquisition.wire", "acquisition.link"},
    "acquisition.outbox": {"acquisition.model", "acquisition.wire", "acquisition.link"},
    "acquisition.signing": {"acquisition.model", "acquisition.wire", "acquisition.link", "acquisition.config"},
    "acquisition.shards": {"acquisition.model", "acquisition.wire", "acquisition.link", "acquisition.config"},
    "acquisition.snapshot": {"acquisition.model", "acquisition.wire", "acquisition.link", "acquisition.config"},
    "acquisition.status": {
        "acquisition.model", "acquisition.wire", "acquisition.link", "acquisition.config", "acquisition.shards",
        "acquisition.snapshot",
    },
    "acquisition.hosts": {
        "acquisition.model", "acquisition.wire", "acquisition.link", "acquisition.config", "acquisition.snapshot",
        "acquisition.status",
    },
    # What computes: the worker knows no reader.
    "filters.runtime": set(),
    "filters.leases": {"acquisition.link", "acquisition.wire"},
    "filters.kernels": {"acquisition.model", "acquisition.wire"},
    "filters.worker": {
        "acquisition.model", "acquisition.wire", "acquisition.link", "acquisition.config", "acquisition.signing",
        "filters.kernels", "filters.leases", "filters.runtime",
    },
    # What decides: pure, of values only.
    "filters.decisions": {
        "acquisition.model", "acquisition.config", "acquisition.snapshot.values.states",
    },
    # What reads: no reader knows the worker.
    "filters.archive": {
        *_VALUES, "acquisition.link", "acquisition.signing", "filters.leases", "filters.runtime", "filters.text",
    },
    "filters.text": {"acquisition.snapshot"},
    "filters.judging": {*_VALUES, "acquisition.link", "filters.decisions"},
    "filters.documents": {*_VALUES, "filters.decisions", "filters.judging", "filters.text"},
    "filters.query": {*_VALUES, "filters.decisions", "filters.documents", "filters.judging", "filters.text"},
    "filters.prometheus": {*_VALUES, "acquisition.shards", "acquisition.status", "filters.text"},
    "filters.page": set(),
    "filters.service": {
        *_VALUES, "acquisition.link", "acquisition.shards", "acquisition.status", "filters.decisions",
        "filters.documents", "filters.prometheus", "filters.judging", "filters.page", "filters.runtime",
    },
    "filters.top": {
        *_VALUES, "acquisition.link", "acquisition.shards", "acquisition.status", "filters.decisions",
        "filters.judging", "filters.runtime", "filters.text",
    },
    "filters.watcher": _VALUES,
}  # fmt: skip
#: What decisions must not do: wait, look at a clock, read and write.
IMPURE = {"asyncio", "io", "os", "pathlib", "random", "select", "socket", "subprocess", "sys", "threading", "time"}
#: What would make every probe heavier by a megabyte or more.
HEAVY = {
    "argparse", "dataclasses", "hashlib", "importlib.metadata", "inspect", "logging",
    "msgspec", "numpy", "redis", "ssl", "subprocess", "tomllib",
}  # fmt: skip
LEAN = [
    "acquisition.errors",
    "acquisition.link.resp",
    "acquisition.model.codes",
    "acquisition.model.identity",
    "acquisition.model.metric",
    "acquisition.outbox.frames.store",
    "acquisition.outbox.writer",
    "acquisition.wire.frame",
    "acquisition.wire.keys",
    "acquisition.wire.position",
    "acquisition.wire.table",
    "probes.loop.agent",
    "probes.sources.pidstat_child",
    "probes.sources.procfs_host",
    "probes.sources.procfs_processes",
    "probes.sources.procfs_vms",
    "probes.sources.vmstat_child",
]


#: Modules of a room, without those of rooms in it, and how many of them an import chain may have.
MOST_MODULES, LONGEST_CHAIN = 15, 6


class Import(NamedTuple):
    """``where`` is file and line; ``what`` the module, or the name in a package."""

    where: str
    what: str

    def is_of(self, *modules: str) -> bool:
        """Whether it is one of these modules or lies in them."""
        return any(f"{self.what}.".startswith(f"{module}.") for module in modules)


def imports(directory: Path) -> list[Import]:
    """Those of all modules of a directory, those for type checkers and those in functions included."""
    return [one for path in sorted(directory.rglob("*.py")) for one in imports_of(path)]


@cache  # most files lie in a package and in a room
def imports_of(path: Path) -> list[Import]:
    found: list[Import] = []
    for node in ast.walk(ast.parse(path.read_text())):
        where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            found += [Import(where, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{where}: relative import"
            found += [Import(where, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def check(found: Iterable[Import], within: Iterable[str], allowed: Iterable[str]) -> None:
    """Fails with the imports from ``within`` that are not of ``allowed``."""
    wrong = [f"{one.where} imports {one.what}" for one in found if one.is_of(*within) and not one.is_of(*allowed)]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_they_may(package: str) -> None:
    check(imports(ROOT / package), PACKAGES, PACKAGES[package])


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_only_what_they_may(room: str) -> None:
    common = {f"acquisition.{path.stem}" for path in (ROOT / "acquisition").glob("*.py")} | {"acquisition.__version__"}
    found = imports(ROOT / room.replace(".", "/"))
    check(found, PACKAGES, {room, *ROOMS[room], *common})


def test_every_room_is_in_the_table_and_none_lies_above_itself() -> None:
    there = {f"{package}.{path.parent.name}" for package in ("acquisition", "filters")
             for path in (ROOT / package).glob("*/__init__.py")}  # fmt: skip
    assert there == set(ROOMS)
    rooms = {room: {".".join(name.split(".")[:2]) for name in below} for room, below in ROOMS.items()}
    TopologicalSorter(rooms).prepare()  # raises CycleError, which names them


def test_what_rooms_share_imports_no_room() -> None:
    check([one for one in imports(ROOT / "acquisition") if one.where.count("/") == 1], ROOMS, ())


@cache
def graph(package: str) -> dict[str, frozenset[str]]:
    """Module -> those of the same package that it imports."""
    files = sorted((ROOT / package).rglob("*.py"))
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files}
    known = set(names.values())
    found: dict[str, set[str]] = {name: set() for name in known}
    for one in imports(ROOT / package):
        name = names[ROOT / one.where.partition(":")[0]]
        whats = {one.what, one.what.rpartition(".")[0]} & known
        found[name] |= {max(whats, key=len)} - {name} if whats else set()
    return {name: frozenset(others) for name, others in found.items()}


def rooms(package: str) -> list[str]:
    """The directories of a package that hold modules, the package itself included."""
    paths = {path.parent for path in (ROOT / package).rglob("*.py")}
    return sorted(".".join(path.relative_to(ROOT).parts) for path in paths)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_one_that_imports_it(package: str) -> None:
    TopologicalSorter(graph(package)).prepare()  # raises CycleError, which names them


@pytest.mark.parametrize("package", PRODUCT)
def test_rooms_in_a_room_import_one_way(package: str) -> None:
    inner = set(rooms(package))
    for room in inner:
        others: dict[str, set[str]] = {}
        for name, imported in graph(package).items():
            own = part(room, name)
            if own in inner:
                others.setdefault(own, set()).update({part(room, one) for one in imported} & inner - {own})
        TopologicalSorter(others).prepare()  # raises CycleError, which names them


def part(room: str, module: str) -> str:
    """The room or module that lies in a room and is a module or holds it; empty where the module lies elsewhere."""
    return ".".join(module.split(".")[: room.count(".") + 2]) if module.startswith(f"{room}.") else ""


def test_no_room_has_too_many_modules_or_too_long_a_chain() -> None:
    sizes = {room: size(room, graph(package)) for package in PRODUCT for room in rooms(package)}
    beyond = {room: found for room, found in sizes.items() if found[0] > MOST_MODULES or found[1] > LONGEST_CHAIN}
    assert not beyond


def size(room: str, known: Mapping[str, frozenset[str]]) -> tuple[int, int]:
    """How many modules a room has, and how many of them its longest import chain."""
    own = {name for name in known if name.rpartition(".")[0] == room} - set(rooms(room.partition(".")[0]))

    @cache
    def chain(name: str) -> int:
        return 1 + max([chain(other) for other in known[name] & own], default=0)

    return len(own), max(map(chain, own), default=0)


def test_decisions_are_pure() -> None:
    check(imports(ROOT / "filters" / "decisions"), IMPURE, ())


@pytest.mark.parametrize("module", LEAN)
def test_what_the_probe_imports_stays_light(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, env=bare())
    assert done.returncode == 0, done.stderr
    assert not HEAVY & set(done.stdout.split()), f"{module} imports {HEAVY & set(done.stdout.split())}"


def bare() -> dict[str, str]:
    """An environment in which only hiredis is found beside the checkout: -S leaves site-packages out."""
    import hiredis

    return {"PYTHONPATH": f"{ROOT}:{Path(hiredis.__file__).resolve().parents[1]}"}


def test_finding_a_command_imports_no_sibling() -> None:
    code = "import sys; from acquisition import cli; cli.commands(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"probes", "filters", "numpy", "msgspec"} & {name.split(".")[0] for name in loaded}
