"""Fault kinds, one file per kind of target, registered in ``KINDS``."""

from experiments.chaos.faults import (
    archiving,
    blindness,
    growing,
    links,
    memory,
    nodes,
    overload,
    processes,
    rolling,
    trust,
)
from experiments.chaos.faults.targets import Skipped
from experiments.chaos.kinds import Kind

_ALL = (
    nodes.kill_master,
    nodes.cut_master,
    nodes.isolate_master,
    nodes.freeze_master,
    nodes.kill_replica,
    nodes.cut_replica,
    nodes.lose_shard,
    growing.reshard,
    growing.grow,
    links.delay_shard,
    links.loss_shard,
    links.rate_shard,
    links.delay_worker,
    links.loss_worker,
    links.delay_generator,
    links.loss_generator,
    memory.fill_memory,
    memory.limit_memory,
    processes.kill_worker,
    processes.freeze_worker,
    links.cut_worker,
    processes.kill_generator,
    processes.freeze_generator,
    links.cut_generator,
    processes.step_clock,
    archiving.kill_archiver,
    archiving.freeze_archiver,
    archiving.cut_archiver,
    archiving.kill_database,
    archiving.freeze_database,
    trust.expired_certificate,
    trust.early_certificate,
    trust.strange_certificate,
    trust.other_name,
    trust.revoke_user,
    trust.port_without_tls,
    trust.client_without_tls,
    blindness.filters_killed,
    blindness.filters_frozen,
    blindness.probes_killed,
    blindness.probes_frozen,
    blindness.probes_cut,
    blindness.probes_stopped,
    blindness.some_probes_killed,
    blindness.shard_frozen,
    blindness.shard_killed,
    overload.talkative_hosts,
    rolling.replace_worker,
    rolling.replace_service,
)

#: The kinds by name. Schedules follow from their order: a new one comes last, or other seeds make other schedules.
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}

__all__ = ["KINDS", "Skipped"]
