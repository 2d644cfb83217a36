"""Ansible callback: each host's problems in the last lines of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: findings
type: notification
short_description: Says at the end of a run what is wrong with each host
description: Prints nothing where nothing failed.
author: [shardpulse]
"""

_CONTROLLER = "localhost"


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Callback loaded by Ansible."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "findings"

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, list[str]] = {}

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Record failures; those a play recovers from, such as a rescued task, are omitted at the end."""
        if not ignore_errors:
            self._remember(result, reason_of(result.result))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Record the reason."""
        self._remember(result, unreached(result.host.get_name(), reason_of(result.result)))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Print the last lines of a run, those of the controller after those of the hosts."""
        hosts = sorted({*stats.dark, *stats.failures}, key=lambda host: (host == _CONTROLLER, host))
        for host in hosts:
            color = "normal" if host == _CONTROLLER and len(hosts) > 1 else "red"
            for words in dict.fromkeys(self._found.get(host, ())):
                self._display.display(words, color=color)

    def _remember(self, result: Any, words: str) -> None:
        host = result.host.get_name()
        where = str(result.task.delegate_to or host)  # failures on the controller are not the host's
        self._found.setdefault(host, []).append(words if words.startswith(where) else f"{where}: {words}")


def unreached(host: str, reason: str) -> str:
    """Text on a host that does not answer."""
    return (
        f"{host} cannot be reached: {reason}. Nothing more was done there, and what runs goes on running. "
        f"See {host} (power, network, sshd, its key), then give the same command again: it goes on where it ended. "
        "For a machine that will not come back see docs/deployment.md, Every day after: replace.yml"
    )


def reason_of(result: Mapping[str, Any]) -> str:
    """Reason in one line; for a loop its first failed item, for a command the last line of its output."""
    failed = next((item for item in result.get("results", ()) if item.get("failed")), result)
    said = str(failed.get("msg") or "failed, see above")
    last = str(failed.get("stderr") or failed.get("stdout") or "").strip().rpartition("\n")[2] if "rc" in failed else ""
    text = f"{said}: {last}".removeprefix("Task failed: ")  # a host may send any text, and a terminal shows it
    text = "".join(c if c.isprintable() or c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return " ".join(text.split()).strip(".: ")
