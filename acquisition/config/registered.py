"""Schema parts filled by installed packages: tables of checks, source names.

Like everything in ``acquisition.plugins`` they are found through entry points; without the package with the
probe there are no checks, and ``auto`` is the only source.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from acquisition import plugins
from acquisition.config.schema import Meta, Table
from acquisition.model.check_kind import CheckKind, Parameter

AUTO = "auto"
Enabled = Annotated[bool, Meta(description="false disables it")]


def _field(parameter: Parameter) -> tuple[str, Any, Any]:
    name, default, low, high, meaning = parameter
    if isinstance(default, int | float):
        return name, Annotated[type(default), Meta(ge=low, le=high, description=meaning)], default
    limits = Annotated[dict[str, tuple[float, float]], Meta(description=meaning)]
    return name, limits, field(default_factory=dict)


def _table(name: str, kind: CheckKind) -> type[Table]:
    fields = [("enabled", Enabled, True), *map(_field, kind.parameters)]
    return _made(f"{name.title()}Check", kind.help, fields)


def _check_tables() -> type[Table]:
    tables = {name: _table(name, kind) for name, kind in plugins.registered(plugins.CHECKS).items()}
    fields = [(name, table, field(default_factory=table)) for name, table in tables.items()]
    meaning = "Checks of samples, in order of execution; the first that fails sets the code."
    return _made("Checks", meaning, fields)


def _made(name: str, meaning: str, fields: list[tuple[str, Any, Any]]) -> type[Table]:
    annotations = {key: hint for key, hint, _ in fields}
    defaults = {key: default for key, _, default in fields}
    space = {"__doc__": meaning, "__module__": __name__, "__annotations__": annotations, **defaults}
    made = type(name, (Table,), space)
    assert issubclass(made, Table)
    return made


def _source_names(resource_set: str) -> Any:
    return Literal[(AUTO, *(name for owner, name in plugins.registered(plugins.SOURCES) if owner == resource_set))]


if TYPE_CHECKING:
    Checks = Table
    HostSource = str
    ProcessesSource = str
    VmsSource = str
else:
    Checks = _check_tables()
    HostSource, ProcessesSource, VmsSource = map(_source_names, ("host", "processes", "vms"))
