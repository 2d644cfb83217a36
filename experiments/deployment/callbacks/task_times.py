"""Ansible callback: start time of each task, as JSON lines in TASK_TIMES."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: task_times
type: aggregate
short_description: when each task began
description: play, role and name of each task, with CLOCK_MONOTONIC, as lines of JSON in the file TASK_TIMES
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Callback plugin, under the name expected by Ansible."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "task_times"
    CALLBACK_NEEDS_ENABLED = True
    _play = ""

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """A play begins; the next tasks belong to it."""
        self._play = play.get_name()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: ARG002
        """A task begins, and the one before has ended."""
        role = task._role.get_name() if task._role else ""
        self._write({"play": self._play, "role": role, "task": task.name})

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        """The same for a handler."""
        self.v2_playbook_on_task_start(task, False)

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ARG002
        """The last task has ended."""
        self._write({"play": "", "role": "", "task": ""})

    def _write(self, event: dict[str, str]) -> None:
        with open(os.environ["TASK_TIMES"], "a", encoding="utf-8") as file:
            file.write(json.dumps(event | {"at": time.monotonic()}) + "\n")
