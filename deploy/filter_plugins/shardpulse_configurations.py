"""Ansible filters for the inventory's additions to part configurations.

Equal texts are merged, so that the controller's command can check each one before a host is touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

#: Variable -> group of its part, and the tables opened by the role's template before its text.
_PARTS = {
    "probe_configuration": ("probes", "[host]\n[shards]\n"),
    "filter_configuration": ("filters", "[shards]\n"),
    "serve_configuration": ("servers", "[shards]\n[serve]\n"),
    "archive_configuration": ("archives", "[shards]\n[archive]\n"),
}
#: Prefix of the command's messages; its line numbers include the role's tables, and would mislead.
_BEFORE = re.compile(r"^shardpulse: (error: )?(/dev/stdin:? ?(line \d+)?:? )?")


class FilterModule:
    """Filters loaded by Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {"shardpulse_configurations": configurations, "shardpulse_mistakes": mistakes}


def configurations(
    groups: Mapping[str, Sequence[str]], hostvars: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, str]]:
    """Texts of variables such as ``filter_configuration``, each with ``variable``, ``hosts`` and ``text``,
    preceded by the role's tables. Raises AnsibleFilterError with the host if a template cannot be rendered."""
    found: dict[tuple[str, str], list[str]] = {}
    for variable, (group, tables) in _PARTS.items():
        for host in groups.get(group, ()):
            try:
                text = str(hostvars[host].get(variable, ""))
            except Exception as error:  # of any kind: it is the operator's template
                raise AnsibleFilterError(f"{host}: {variable}: {error}") from error
            if text.strip():
                found.setdefault((variable, f"{tables}\n{text}\n"), []).append(host)
    return [
        {"variable": variable, "hosts": ", ".join(hosts), "text": text} for (variable, text), hosts in found.items()
    ]


def mistakes(checked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Mistakes in them, from the results of ``shardpulse config --file /dev/stdin``."""
    return [
        f"{one['item']['variable']} ({one['item']['hosts']}): {_BEFORE.sub('', one['stderr'].strip())}"
        for one in checked
        if one["rc"]
    ]
