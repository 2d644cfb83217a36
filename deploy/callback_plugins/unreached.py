"""An Ansible callback: when a run has ended early because a host did not answer, says in words which and what to do."""

from __future__ import annotations

from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: unreached
type: notification
short_description: Says at the end of a run which hosts did not answer, and what to do
description: Prints nothing where all of them did.
author: [shardpulse]
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """What Ansible looks for."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "unreached"

    def __init__(self) -> None:
        super().__init__()
        self._reasons: dict[str, str] = {}

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Remember why."""
        self._reasons[result._host.get_name()] = reason_of(result._result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """The last word of a run."""
        for host in sorted(stats.dark):
            self._display.display(words(host, self._reasons.get(host, "it does not answer")), color="red")


def words(host: str, reason: str) -> str:
    """What is said of a host."""
    return (
        f"{host} cannot be reached: {reason}. Nothing more was done there, and what runs goes on running. "
        f"See {host} (power, network, sshd, its key), then give the same command again: it goes on where it ended. "
        "For a machine that will not come back see docs/deployment.md, Every day after: replace.yml"
    )


def reason_of(result: dict[str, Any]) -> str:
    """In one line."""
    said = str(result.get("msg") or "it does not answer")
    return " ".join(said.removeprefix("Task failed: ").split()).rstrip(".:")
