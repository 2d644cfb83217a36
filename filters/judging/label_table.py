"""Labels of hosts and VMs: those that the probe sends, and those of the configuration, which win (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import translate

from acquisition.config.decisions import Labels


class LabelTable:
    """Labels by pattern of names or ids; what later patterns say wins over earlier ones."""

    def __init__(self, patterns: Mapping[str, Labels]) -> None:
        self._rows = [(re.compile(translate(pattern)), _texts(labels)) for pattern, labels in patterns.items()]

    def of(self, sent: Mapping[str, str], *names: str) -> Mapping[str, str]:
        """The labels of what has these names, and sends ``sent`` of itself."""
        if not self._rows:
            return sent
        found = dict(sent)
        for pattern, labels in self._rows:
            if any(pattern.match(name) for name in names):
                found.update(labels)
        return found


def _texts(labels: Labels) -> dict[str, str]:
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in labels.items()}
