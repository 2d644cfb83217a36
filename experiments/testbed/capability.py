"""Capabilities of this machine, probed once in a disposable namespace."""

from __future__ import annotations

import functools
import os
from contextlib import closing
from pathlib import Path

from acquisition.errors import CannotCreateError
from experiments.processes import access
from experiments.testbed.commands import path_of, run, succeeds
from experiments.testbed.namespace import Namespace


@functools.cache
def missing() -> str:
    """Why hosts in network namespaces are not possible here and what to do about it; "" if they are."""
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
    """Why shards on such hosts are not possible here and what to do about it; "" if they are."""
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


#: Followed by a name and a command: the first process of a host, with its own name, processes and shared memory, the
#: default place of rings and of libfaketime's files.
APART = (
    "unshare", "--uts", "--pid", "--mount-proc", "--fork", "--kill-child", "/bin/sh", "-c",
    'hostname "$0" && mount -t tmpfs tmpfs /dev/shm && exec "$@"',
)  # fmt: skip


@functools.cache
def has_process_namespaces() -> bool:
    """Whether a host can have its own processes and its own name (unshare(1))."""
    return succeeds(*APART, "trial", "true")


def clock_library() -> Path | None:
    """Library that gives processes a wrong clock (Debian's libfaketime); None if it is not installed."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


def missing_clocks() -> str:
    """Why a host cannot have a wrong clock here and what to do about it; "" if it can."""
    if clock_library() is None:
        return "a wrong clock needs libfaketime: apt install faketime"
    return "" if has_process_namespaces() else "a wrong clock needs processes of its own: namespaces for pid and mounts"
