"""The check pipeline: small checks, each in a file of its own, run in order over a reading.

A check is a factory ``(resource_set, settings) -> Check``; the Check is called once per
reading and sets the code of samples that fail. A check only marks samples whose code is
still VALID (the first reason stands) and never changes a value: the raw value is kept.
New check: one file, one line in REGISTRY, one fixture, one test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from acquisition.metric import ResourceSet
from probes.reading import Reading

Check = Callable[[Reading], None]
CheckSettings = Mapping[str, object]  #: the TOML table [checks.NAME], already validated
CheckFactory = Callable[[ResourceSet, CheckSettings], Check]

#: name -> factory, in the order in which they run by default
REGISTRY: dict[str, CheckFactory] = {}
