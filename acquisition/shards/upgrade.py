"""``shardpulse shards upgrade``: let filters write records in the newest format."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from dataclasses import replace

from acquisition.config import endpoints
from acquisition.config.settings import Shards as Settings
from acquisition.errors import EXIT_OK
from acquisition.link import state_directory
from acquisition.link.cluster import Cluster, read_layout
from acquisition.link.resp import raise_for
from acquisition.shards.launch import running
from acquisition.wire import keys, layout, record_format


def upgrade(options: argparse.Namespace, settings: Settings) -> int:
    """Let filters write records in the newest format that this version knows. Do it once every filter and every
    reader (query, top, serve, watcher) is of this version: those of the version before would stop. Running filters
    follow within seconds, and no average starts anew."""
    settings = endpoints.with_addresses(settings, options.shards)
    if options.dir:
        settings = replace(settings, addresses=[])
    with closing(endpoints.connect(settings)) as cluster:
        before = raise_record_format(cluster)
    if not settings.addresses:
        _remember(settings)
    if options.json:
        print(json.dumps({"record_format": record_format.NEWEST, "before": before}))
    elif before == record_format.NEWEST:
        print(f"filters write records of format {before} already, the newest that this version knows")
    else:
        print(f"filters write records of format {record_format.NEWEST} from now on; it was {before}")
    return EXIT_OK


def raise_record_format(cluster: Cluster) -> int:
    """Name the newest record format in the layout; answers the one before. Raises ConfigError as ``read_layout``."""
    found = read_layout(cluster)
    if found.record_format != record_format.NEWEST:
        raised = found._replace(record_format=record_format.NEWEST)
        for reply in cluster.gather([(copy, ("SET", copy, layout.encode(raised))) for copy in keys.layouts()]):
            raise_for(reply)
    return found.record_format


def _remember(settings: Settings) -> None:
    """Tell the state file: shards that are started again empty get their layout from it."""
    directory = endpoints.directory(settings)
    with state_directory.locked(directory):
        shards = running(directory)
        if shards is not None:
            shards.remember_record_format(record_format.NEWEST)
