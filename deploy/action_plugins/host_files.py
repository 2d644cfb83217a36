"""Ansible action of ``host_files``: writes to a local directory in render.yml.

That directory is on the controller.

Otherwise it runs the module on the host, as if this plugin did not exist.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action.normal import ActionModule as OnTheHost


class ActionModule(OnTheHost):  # type: ignore[misc]
    """Action plugin loaded by Ansible. ``rendered_to`` (a variable): the directory for a subdirectory named after each
    host; a task that runs once for a play writes the files of all its hosts there."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's result."""
        variables = task_vars or {}
        directory = variables.get("rendered_to")
        if not directory:
            result: dict[str, Any] = super().run(tmp, task_vars)
            return result
        place = Path(str(self._templar.template(directory)))
        if self._task.run_once:
            for host, files in self._of_all(variables):
                render(place / host, files)
        else:
            render(place / str(variables["inventory_hostname"]), self._task.args["files"])
        return {"changed": False, "paths": []}

    def _of_all(self, variables: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
        """Each host of the play with its files, from the unrendered task: its arguments here are those of the first
        host. Raises AnsibleActionFail with the host's name."""
        written = self._task.get_ds()[self._task.action]["files"]
        manager, play = variables["hostvars"]._variable_manager, self._task.get_play()
        names = variables["ansible_play_hosts"]
        for name in names:
            host = manager._inventory.get_host(name)
            found = manager.get_vars(
                play=play, host=host, task=self._task, _hosts=names, _hosts_all=variables["ansible_play_hosts_all"]
            )
            try:
                yield name, self._templar.copy_with_new_env(available_variables=found).template(written)
            except AnsibleError as error:
                raise AnsibleActionFail(f"{name}: {error}") from error


def render(place: Path, files: Sequence[Mapping[str, Any]]) -> None:
    """Write ``files``, in the form of ``host_files``, below ``place``; for a secret only its length."""
    for file in files:
        if file.get("kind", "file") not in {"file", "link"}:
            continue
        path = place / str(file["path"]).lstrip("/")
        if file.get("kind") == "link":
            text = f"(a link to {file['target']})\n"
        elif file.get("secret") is not None:
            text = f"({len(str(file['secret']).encode())} bytes, not shown)\n"
        else:
            text = str(file["content"])
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as written:
            written.write(text)
