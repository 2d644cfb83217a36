"""Hosts for manual use (``up DIRECTORY``), and cached parts (``prepare``).

``python -m tests.support.hosts up DIRECTORY`` runs until Ctrl-C; ``prepare`` makes in the user's
cache what the tests on hosts need, while other tests run.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from acquisition.errors import CannotCreateError
from experiments.hosts import HostError, data_center, missing, tree
from experiments.hosts.site import needed_wheels
from experiments.processes.debian import DebianError
from tests.support.deployed_site import SITE_PACKAGES


def main(arguments: list[str]) -> int:
    """0 when it was ended, 1 when it could not start, 69 where such hosts are not possible."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.hosts", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    commands.add_parser("prepare", help="make the Debian of the hosts and collect wheels, once")
    up = commands.add_parser("up", help="start hosts, say how to reach them, wait")
    up.add_argument("directory", type=Path, help="keys, ssh_config and the hosts' disks lie there, and stay")
    up.add_argument("--count", type=int, default=1, help="node1, node2 … (1)")
    up.add_argument("--package", action="append", default=[], help="of Debian, on all hosts; may be repeated")
    up.add_argument("--internet", action="store_true", help="the hosts reach Debian's mirror and PyPI, nothing else")
    options = parser.parse_args(arguments)
    reason = missing()
    if reason:
        print(f"no hosts here: {reason}", file=sys.stderr)
        return 69
    if options.command == "prepare":
        return _prepare()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    names = [f"node{number + 1}" for number in range(options.count)]
    try:
        with data_center(options.directory, names, packages=options.package, internet=options.internet) as hosts:
            for host in hosts.values():
                print(f"{host.name}  {host.address}")
            config = options.directory.resolve() / "ssh_config"
            print(f"ssh -F {config} {names[0]}     Ctrl-C ends them all", flush=True)
            signal.pause()
    except (DebianError, CannotCreateError, HostError) as error:
        print(f"no hosts: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def _prepare() -> int:
    try:
        tree.layers(SITE_PACKAGES)
        needed_wheels()
    except (DebianError, CannotCreateError) as error:
        print(f"nothing prepared for the tests on hosts: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
