#!/usr/bin/env python3
"""Dynamic Ansible inventory: six shard machines and a hundred watched ones.

Readers of the shards run on the six.

As Ansible's dynamic inventory (`ansible-playbook -i inventories/hundred.py site.yml`) it prints JSON. It shows that an
inventory of thousands is a loop: read your machines from wherever you list them. $SHARDPULSE_WATCHED: another number.
"""

from __future__ import annotations

import json
import os
from typing import Any

WATCHED = int(os.environ.get("SHARDPULSE_WATCHED", "100"))
SHARDS = 6  #: machines, with four cores of shards each


def inventory(watched: int) -> dict[str, Any]:
    """The inventory in Ansible's format."""
    pulses = [f"pulse-{number}" for number in range(1, SHARDS + 1)]
    hosts = [f"host-{number:04}" for number in range(1, watched + 1)]
    variables = {name: {"ansible_host": f"198.51.100.{number}"} for number, name in enumerate(pulses, 1)}
    for number, name in enumerate(pulses):
        variables[name] |= {"redis_shard_cores": [0, 1, 2, 3], "redis_shard_failure_domain": f"rack-{number % 3}"}
    for number, name in enumerate(hosts):
        variables[name] = {"ansible_host": f"10.{20 + number // 62500}.{number // 250 % 250}.{number % 250 + 1}"}
    return {
        "all": {"vars": {"redis_shard_replicas": 1, "redis_shard_maxmemory": 8 << 30}},
        "shards": {"hosts": pulses},
        "filters": {"hosts": pulses},
        "servers": {"hosts": pulses[:2]},
        "archives": {"hosts": pulses[2:4]},
        "observers": {"hosts": pulses[4:5]},
        "probes": {"hosts": [*pulses, *hosts]},
        "_meta": {"hostvars": variables},
    }


if __name__ == "__main__":
    print(json.dumps(inventory(WATCHED), indent=1))
