"""Options of one chaos run, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from experiments.chaos.load import Load


class Scene(NamedTuple):
    """Parts of an installation: shards with a master and a replica each, filter workers, generators, archivers, query
    services; with the name of its ``scenario``, "" without one."""

    shards: int
    workers: int
    generators: int
    archivers: int = 0
    services: int = 0
    scenario: str = ""


@dataclass(frozen=True, kw_only=True)
class Options:
    """One run. With ``own_figures`` hosts send their own figures, which rules judge, else those of VMs; with
    ``talkative`` every fourth host can make ten times as many frames, and the filter can take half of that."""

    seconds: float = 60.0
    seed: int = 1
    hosts: int = 100
    entities: int = 101
    metrics: int = 5
    invalid: float = 0.01
    shards: int = 3
    workers: int = 3
    generators: int = 4
    archivers: int = 2
    tau: float = 5.0
    held_seconds: float = 600.0
    drain_seconds: float = 60.0
    maxmemory_bytes: int = 192 << 20
    only: tuple[str, ...] = ()
    keep: str = ""
    scenario: str = ""
    services: int = 0
    own_figures: bool = False
    talkative: bool = False

    @property
    def load(self) -> Load:
        """Load emulated by the generators, once a second."""
        return Load(**self.load_arguments)

    @property
    def load_arguments(self) -> dict[str, Any]:
        """Load arguments for another process."""
        return {
            "hosts": self.hosts,
            "entities": self.entities,
            "metrics": self.metrics,
            "interval": 1.0,
            "seed": self.seed,
            "invalid": self.invalid,
            "own_figures": self.own_figures,
            "talkative": self.talkative,
        }

    @property
    def scene(self) -> Scene:
        """The parts that faults can target."""
        return Scene(self.shards, self.workers, self.generators, self.archivers, self.services, self.scenario)
