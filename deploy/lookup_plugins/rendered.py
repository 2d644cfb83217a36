"""Ansible lookup: a role's template, rendered with the host's variables."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible.template import trust_as_template

DOCUMENTATION = """
name: rendered
short_description: A template of the role, rendered
description:
  - As C(ansible.builtin.template), which copies all variables for each template, those of the inventory's groups
    with them. With a thousand hosts in the groups that takes longer than everything else.
author: [shardpulse]
options:
  _terms: {description: Names of files in the role's templates., required: true}
"""
EXAMPLES = """
- name: Write the probe's configuration
  host_files:
    files:
      - {path: /etc/shardpulse/probe.toml, content: "{{ lookup('rendered', 'probe.toml.j2') }}"}
"""
RETURN = """
_raw: {description: What they say., type: list, elements: str}
"""


class LookupModule(LookupBase):  # type: ignore[misc]
    """Lookup loaded by Ansible."""

    def run(self, terms: list[Any], variables: Any = None, **options: Any) -> list[str]:
        """The texts."""
        self.set_options(var_options=variables, direct=options)
        return [self._render(str(term), variables) for term in terms]

    def _render(self, name: str, variables: Any) -> str:
        path = self.find_file_in_search_path(variables, "templates", name)
        if not path:
            raise AnsibleLookupError(f"there is no template {name}")
        text = self._loader.get_text_file_contents(path)
        # a template's last newline belongs to the file, but Jinja would remove it
        return str(self._templar.template(trust_as_template("#jinja2: keep_trailing_newline: True\n" + text)))
