"""What this machine lets us do, found out by doing it once in a namespace that is thrown away."""

from __future__ import annotations

import functools
import os
from contextlib import closing

from acquisition.errors import CannotCreateError
from experiments.processes import access
from experiments.testbed.commands import path_of, run, succeeds
from experiments.testbed.namespace import Namespace


@functools.cache
def missing() -> str:
    """Why hosts in network namespaces are not possible here and what to do about it; "" when they are."""
    if os.geteuid() != 0:
        return "network namespaces need root: run this as root, or in a container with CAP_SYS_ADMIN and CAP_NET_ADMIN"
    if path_of("ip") is None:
        return "ip is not installed: apt install iproute2"
    try:
        trial = Namespace.create()
    except CannotCreateError as error:
        return f"{error}: give this container CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN --cap-add NET_ADMIN)"
    try:
        with trial.inside():
            run("ip", "link", "add", "bridge0", "type", "bridge")
            run("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
            run("ip", "link", "set", "veth0", "master", "bridge0")
    except CannotCreateError as error:
        return (
            f"no bridge or veth: {error}; the kernel needs CONFIG_VETH and CONFIG_BRIDGE, the container CAP_NET_ADMIN"
        )
    finally:
        trial.close()
    return ""


@functools.cache
def missing_for_shards() -> str:
    """Why shards on such hosts are not possible here and what to do about it; "" when they are."""
    return missing() or access.missing()


@functools.cache
def has_tbf() -> bool:
    """Whether the kernel can limit the rate of a link (tc-tbf(8))."""
    try:
        trial = Namespace.create()
    except CannotCreateError:
        return False
    discipline = ("tbf", "rate", "1mbit", "burst", "32kb", "latency", "400ms")
    with closing(trial), trial.inside():
        return succeeds("tc", "qdisc", "add", "dev", "lo", "root", *discipline)
