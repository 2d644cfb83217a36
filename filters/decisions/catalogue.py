"""Catalogue of rules, selections and placements, for help and docs/moves.md.

``python -m filters.decisions.catalogue`` prints the tables of that page.
"""

from __future__ import annotations

import msgspec

from filters.decisions import overload_detection, vm_placement, vm_selection


def help_text() -> str:
    """The rules with their parameters, for ``--help``."""
    lines = []
    for rule in overload_detection.rules().values():
        values = msgspec.to_builtins(rule.defaults)
        shown = ", ".join(f"{key}={','.join(v) if isinstance(v, (list, tuple)) else v}" for key, v in values.items())
        lines.append(f"  {rule.name}: {rule.title}\n      {shown}")
    return "\n".join(lines)


def rules_table() -> str:
    """The rules, one row each."""
    rows = (f"| `{rule.name}` | {rule.hot_if} | {rule.source} |" for rule in overload_detection.rules().values())
    return "\n".join(["| rule | hot if | source |", "|---|---|---|", *rows])


def ways_table() -> str:
    """The ways of selecting and placing VMs, one row each."""
    ways = [("selection", way.name, way.title, way.source) for way in vm_selection.selections().values()]
    ways += [("placement", way.name, way.title, way.source) for way in vm_placement.placements().values()]
    rows = (f'| `{key} = "{name}"` | {title} | {source} |' for key, name, title, source in ways)
    return "\n".join(["| key | chosen is | source |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(f"{rules_table()}\n\n{ways_table()}")
