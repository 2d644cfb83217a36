"""Cluster layout shared by all clients: value of ``layout:{copy}``, as JSON.

Fields are found by name, and unknown ones are ignored. The probe imports this module: it stays lean.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from acquisition.errors import ConfigError
from acquisition.wire import keys
from acquisition.wire.records import record_format

_FORMAT = 1


class Layout(NamedTuple):
    """Numbers of partitions and of kept ticks, which never change, and the format in which filters write records
    (``acquisition.wire.records.record_format``), which is raised."""

    partitions: int = keys.DEFAULT_PARTITIONS
    keep_ticks: int = keys.DEFAULT_KEEP_TICKS
    record_format: int = record_format.NEWEST

    @property
    def tags(self) -> tuple[str, ...]:
        """Hash tags of all partitions."""
        return keys.tags(self.partitions)

    def tag_of(self, host: int) -> str:
        """Hash tag of a host's partition."""
        return self.tags[keys.partition_of(host, self.partitions)]


def encode(layout: Layout) -> str:
    """Document of a layout."""
    return json.dumps({"format": _FORMAT, **layout._asdict()})


def decode(data: bytes) -> Layout:
    """Layout in ``data``, with any record format. Raises ConfigError if it is damaged or itself of another
    format."""
    try:
        document = json.loads(data)
        if document["format"] != _FORMAT:
            raise ConfigError(f"layout format {document['format']} is not supported (supported: {_FORMAT})")
        found = Layout(
            int(document["partitions"]),
            int(document.get("keep_ticks", keys.DEFAULT_KEEP_TICKS)),
            int(document["record_format"]),
        )
        keys.tags(found.partitions)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"the layout in the shards is damaged: {data!r}") from error
    return found
