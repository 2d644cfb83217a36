"""Probe as shipped, on a tree of files and with a given clock.

Only the paths of /proc and /sys and the clock are replaced.

python -m experiments.beside.probe ROOT --config FILE     (options as of ``shardpulse probe``)

Like ``shardpulse probe`` it replaces itself by the lean agent, here with two of its parts replaced.
SIGUSR1 steps the wall clock of this host by an hour, a second one back; the monotonic clock continues, as in any step.
"""

from __future__ import annotations

import os
import signal
import sys
import time

STEP_SECONDS = 3600.0
_ROOT = "SHARDPULSE_BESIDE_ROOT"
_BOOT = (
    "import sys;sys.path[:0]=sys.argv[2:];from experiments.beside.probe import become;"
    "sys.exit(become(int(sys.argv[1])))"
)


def become(descriptor: int) -> int:
    """Run the agent with the settings in the file ``descriptor``; its exit code."""
    from probes.loop import agent, probe
    from probes.sampling.host_facts import HostFacts

    root = os.environ[_ROOT]

    class TreeFacts(HostFacts):
        """Facts of the host with its files below ``root``."""

        __slots__ = ()

        def __init__(self, name: str, scope: str = "") -> None:
            super().__init__(name, f"{root}/proc", f"{root}/sys", scope)

        def refresh(self) -> None:
            """See ``HostFacts``."""
            super().refresh()
            self.cores = 2  # as many as each tree has

    clock, ahead = time.time, 0.0

    def step(_number: int, _frame: object) -> None:
        nonlocal ahead
        ahead = STEP_SECONDS - ahead

    vars(probe)["HostFacts"] = TreeFacts
    time.time = lambda: clock() + ahead
    signal.signal(signal.SIGUSR1, step)
    return agent.main(descriptor)


def main(argv: list[str]) -> int:
    """Resolve the configuration as ``shardpulse probe`` does, and become the agent."""
    from probes import probe_command

    os.environ[_ROOT], *arguments = argv
    probe_command._BOOT = _BOOT
    return probe_command.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
