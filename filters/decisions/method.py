"""Method of decisions: rule, parameters, selection, placement and policy.

Chosen by the configuration.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any, NamedTuple

import msgspec

from acquisition.config.decisions import Decisions, Policy
from acquisition.config.settings import Settings
from acquisition.errors import ConfigError
from filters.decisions import overload_detection, vm_placement, vm_selection
from filters.decisions.overload_detection.rule import Parameters, Rule
from filters.decisions.vm_placement import VmPlacement
from filters.decisions.vm_selection import VmSelection


class Method(NamedTuple):
    """The chosen rule, parameters, selection, placement and policy."""

    rule: Rule
    parameters: Parameters
    selection: VmSelection
    placement: VmPlacement
    policy: Policy


class Registered:
    """Names permitted in [decisions], for the configuration (entry point group ``shardpulse.validators``)."""

    def __call__(self, settings: Settings, name: str) -> None:
        """Refuse unregistered names. Raises ConfigError."""
        method_of(settings.decisions, name=name)

    def choices(self) -> dict[str, tuple[str, ...]]:
        """Permitted values of each key."""
        return {
            "decisions.rule": tuple(overload_detection.rules()),
            "decisions.selection": tuple(vm_selection.selections()),
            "decisions.placement": tuple(vm_placement.placements()),
        }


check = Registered()


def method_of(settings: Decisions, rule: str = "", name: str = "configuration") -> Method:
    """The method configured in ``[decisions]``, with another rule if one is named.

    Raises ConfigError with the key for an unregistered name or an unknown parameter of its rule.
    """
    for key in settings.parameters:
        parameters_of(settings, key, name)
    chosen = rule or settings.rule
    return Method(
        _pick(overload_detection.rules(), chosen, f"{name}: key decisions.rule: unknown rule"),
        parameters_of(settings, chosen, name),
        _pick(vm_selection.selections(), settings.selection, f"{name}: key decisions.selection: unknown selection"),
        _pick(vm_placement.placements(), settings.placement, f"{name}: key decisions.placement: unknown placement"),
        settings.policy,
    )


def parameters_of(settings: Decisions, rule: str, name: str = "configuration") -> Parameters:
    """The parameters of a rule: its defaults, overridden by ``[decisions.parameters]``. Raises ConfigError."""
    where = f"{name}: key decisions.parameters"
    found: Rule = _pick(overload_detection.rules(), rule, f"{where}: unknown rule")
    given = settings.parameters.get(rule, {})
    for key in given:
        if key not in found.defaults.__struct_fields__:
            raise ConfigError(f"{where}.{rule}.{key}: unknown key{_hint(key, found.defaults.__struct_fields__)}")
    try:
        return msgspec.convert({**msgspec.to_builtins(found.defaults), **given}, type(found.defaults))
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}.{rule}: {str(error)[:1].lower()}{str(error)[1:]}") from error


def _pick(registry: dict[str, Any], key: str, problem: str) -> Any:
    if key not in registry:
        raise ConfigError(f"{problem} {key!r}{_hint(key, registry)}")
    return registry[key]


def _hint(word: str, known: Collection[str]) -> str:
    near = get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else f"; expected one of {', '.join(known)}"
