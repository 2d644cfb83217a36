"""Ansible lookup: inventory names unknown to all roles, with suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from ansible.plugins.lookup import LookupBase
from ansible.vars.plugins import get_vars_from_inventory_sources, get_vars_from_path

DOCUMENTATION = """
name: unknown_names
short_description: Variables, groups, keys and files of variables of an inventory that nobody knows
description:
  - A variable or group with a typing error in its name is silent in Ansible, and a default takes its place.
  - The roles' argument specifications are the list of variables.
author: [shardpulse]
options:
  _terms: {description: "Patterns of names that are the operator's own, as in fnmatch(3)."}
  groups: {description: Groups that the roles know., type: list, elements: str, required: true}
"""
EXAMPLES = """
- name: Refuse names that nobody knows
  ansible.builtin.assert:
    that: not query('unknown_names', 'my_*', groups=['shards', 'probes'])
"""
RETURN = """
_raw: {description: "A sentence for each of them, and one about names of one's own.", type: list, elements: str}
"""

_ROLES = Path(__file__).parents[1] / "roles"
_ANSIBLES = ("ansible_*", "inventory_*")  #: variables of Ansible itself
_YAML = (".yml", ".yaml", ".json")  #: suffixes of files with groups
_KEYS = ("hosts", "vars", "children")  #: of a group there
_GROUPS = ("all", "ungrouped")  #: present in every inventory
_NEAR = 0.65  #: of difflib's ratio: less similar names are not typing errors
_NAMED = 3  #: maximum of hosts and groups named in a sentence about a variable


class Named(NamedTuple):
    """A name, a sentence for the case that it is unknown, with ``{}`` in its place, and the list of valid names."""

    name: str
    sentence: str
    known: Collection[str]


class LookupModule(LookupBase):  # type: ignore[misc]
    """Lookup loaded by Ansible."""

    def run(self, terms: list[Any], variables: Any = None, **options: Any) -> list[str]:
        """The sentences, each once."""
        self.set_options(var_options=variables, direct=options)
        groups, playbooks = self.get_option("groups"), Path(variables["playbook_dir"])
        inventory, manager = variables["hostvars"]._inventory, variables["hostvars"]._variable_manager
        known = declared(map(self._loader.load_from_file, map(str, _ROLES.glob("*/meta/argument_specs.yml"))))
        owners = {name: ["-e"] for name in manager.extra_vars}
        for entity in (*inventory.groups.values(), *inventory.hosts.values()):
            for name in self._variables(entity, inventory, playbooks):
                owners.setdefault(name, []).append(entity.name)
        found = [Named(name, _said_by(names), known) for name, names in owners.items()]
        within = {child.name for group in groups for child in _descendants(inventory, group)}
        found += [Named(name, "group {} is unknown", [*_GROUPS, *groups, *within]) for name in inventory.groups]
        sources = [Path(source) for source in inventory._sources]
        for path in [file for source in sources for file in ([source] if source.is_file() else source.glob("*"))]:
            if path.suffix in _YAML:
                found += keys(self._loader.load_from_file(str(path)))
        for place in sorted({playbooks, *(source if source.is_dir() else source.parent for source in sources)}):
            found += files(place / "group_vars", [*groups, *inventory.groups], "group")
            found += files(place / "host_vars", ["localhost", *inventory.hosts], "host")
        own = list(map(str, terms))
        sentences = unknown(found, [*own, *_ANSIBLES])
        hint = f"names of your own are {', '.join(own) or 'none'}: controller_own_names"
        return [*sentences, hint] if sentences else []

    def _variables(self, entity: Any, inventory: Any, playbooks: Path) -> dict[str, Any]:
        """Variables of this group or host itself, from the inventory and from files next to it."""
        beside = get_vars_from_inventory_sources(self._loader, inventory._sources, [entity], "task")
        return {**entity.vars, **beside, **get_vars_from_path(self._loader, str(playbooks), [entity], "task")}


def declared(specifications: Iterable[Mapping[str, Any]]) -> set[str]:
    """Variables named in the roles' argument specifications."""
    entries = [entry for one in specifications for entry in one["argument_specs"].values()]
    return {name for entry in entries for name in entry["options"]}


def keys(groups: Any) -> Iterator[Named]:
    """The keys of groups in an inventory file; Ansible ignores unknown ones."""
    if isinstance(groups, Mapping) and "plugin" not in groups:  # the configuration of a plugin
        for name, group in groups.items():
            if isinstance(group, Mapping):
                yield from (Named(key, f"key {{}} of group {name} is unknown", _KEYS) for key in group)
                yield from keys(group.get("children"))


def files(directory: Path, entities: Sequence[str], kind: str) -> list[Named]:
    """Entries of a directory of variables, by the names under which Ansible reads them."""
    there = [path for path in directory.glob("[!.]*") if path.name[-1] != "~" and path.stem != "README"]
    sentence = f"{{}} in {directory} is no {kind} of the inventory"
    return [Named(path.name if path.name in entities else path.stem, sentence, entities) for path in sorted(there)]


def unknown(found: Iterable[Named], own: Sequence[str]) -> list[str]:
    """Sentences about the names that are unknown and match no pattern of ``own``, as in fnmatch(3)."""
    return [
        one.sentence.format(one.name) + _meant(one)
        for one in found
        if one.name not in one.known and not any(fnmatch(one.name, pattern) for pattern in own)
    ]


def _meant(one: Named) -> str:
    near = difflib.get_close_matches(one.name, one.known, 1, _NEAR)
    return f": did you mean {near[0]}?" if near else ""


def _said_by(owners: Sequence[str]) -> str:
    more = f" and {len(owners) - _NAMED} more" if len(owners) > _NAMED else ""
    return f"variable {{}} ({', '.join(owners[:_NAMED])}{more}) is unknown"


def _descendants(inventory: Any, group: str) -> Collection[Any]:
    """The groups within a group; their hosts have its part."""
    found: Collection[Any] = inventory.groups[group].get_descendants() if group in inventory.groups else ()
    return found
