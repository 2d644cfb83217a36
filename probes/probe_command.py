"""``shardpulse probe``: validates the configuration, then becomes the agent.

Validation needs modules that would cost every probe several megabytes, so this process
replaces itself (execv) by a bare interpreter that imports only the agent. The resolved
settings, password included, are passed in an anonymous file, never on the command line.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import pwd
import resource
import socket
import subprocess
import sys
from dataclasses import asdict, replace
from fnmatch import translate
from importlib import import_module
from pathlib import Path
from typing import Any

import hiredis

from acquisition import help_text, log
from acquisition.config import endpoints, schema
from acquisition.config.loader import check_metrics, find, load
from acquisition.config.probe import AUTO, Probe, ProbeSigning, ProcessesModule, StorageModule
from acquisition.config.settings import Settings
from acquisition.errors import EXIT_OK, ConfigError, ShardpulseError
from acquisition.link.resp import parse_address
from acquisition.outbox.frames.ring import remove
from acquisition.signing import files as signing_files
from acquisition.terminal import ERROR, say
from probes import checks, sources
from probes.loop.agent_settings import AgentSettings, ModuleSettings, encode
from probes.loop.probe import ring_path
from probes.metrics import RESOURCE_SETS

_DESCRIPTION = """\
Sample this host, its processes and its virtual machines, and send the samples to the shards.

One light process runs per host, whatever the number of VMs. The samples of one tick form a frame.
Frames are kept in the ring, a file of fixed size in memory (/dev/shm), until they are confirmed; unsent
frames survive there, and a killed probe resumes from it. --remove-ring deletes it.
SIGHUP reloads the configuration (an invalid one is ignored); SIGTERM and SIGINT stop the probe
gracefully."""

_EXAMPLES = """
shardpulse probe                                    until it is stopped
shardpulse probe --config my.toml --seconds 60
shardpulse probe --shards 10.0.0.7:7000             instead of the configured shards
shardpulse probe --dry-run --ticks 2                print samples instead of sending them
shardpulse probe --remove-ring                      clean up after the last run on this host
systemctl reload shardpulse-probe                   (SIGHUP) after a configuration change
"""

_SHORTEST_WAIT = 0.001
#: Options of the agent's interpreter: no site module, only the packages it needs.
#: -X no_debug_ranges leaves out data used only for markers in tracebacks: 0.6 MB.
_FLAGS = ("-I", "-S", "-X", "no_debug_ranges")
_BOOT = "import sys;sys.path[:0]=sys.argv[2:];from probes.loop.agent import main;sys.exit(main(int(sys.argv[1])))"


def main(argv: list[str]) -> int:
    """Run the command. Returns only for ``--compile``; otherwise the agent takes this process over."""
    options = _parser().parse_args(argv)
    everything = load(options.config)
    if options.remove_ring:
        return _remove_ring(everything)
    settings = resolve(everything, options)
    if options.compile:
        sys.stdout.buffer.write(encode(settings))
        sys.stdout.buffer.flush()
        return EXIT_OK
    become_agent(settings)
    return EXIT_OK


def _remove_ring(settings: Settings) -> int:
    """Delete the ring of this host's probe. Raises CannotCreateError while a probe writes to it."""
    path = settings.probe.ring_path or ring_path(settings.host.name or socket.gethostname())
    print(f"removed {path}" if remove(path) else f"no ring at {path}")
    return EXIT_OK


def become_agent(settings: AgentSettings) -> None:
    """Replace this process by the agent; does not return."""
    _import_agent(settings)
    descriptor = os.memfd_create("shardpulse-probe-settings", 0)  # inherited
    os.write(descriptor, encode(settings))
    os.lseek(descriptor, 0, os.SEEK_SET)
    _raise_descriptor_limit()
    os.execv(sys.executable, [sys.executable, *_FLAGS, "-c", _BOOT, str(descriptor), *import_path()])


def _import_agent(settings: AgentSettings) -> None:
    """Import the agent's modules. Those not compiled yet are compiled here: that takes more than a megabyte of
    memory, which ends with this process and would stay with the agent."""
    found = [sources.REGISTRY[module.resource_set, module.source] for module in settings.modules]
    names = ["probes.loop.agent", *[source.module for source in found if not source.blocks]]
    if sys.dont_write_bytecode:  # the agent ignores PYTHONDONTWRITEBYTECODE, and so does this child
        command = f"import sys;sys.path[:0]=sys.argv[1:];import {', '.join(names)}"
        subprocess.run([sys.executable, *_FLAGS, "-c", command, *import_path()], check=False)
        return
    for name in names:
        import_module(name)


def import_path() -> list[str]:
    """Directories of this project's packages and hiredis."""
    places = [str(Path(__file__).resolve().parents[1]), str(Path(hiredis.__file__).resolve().parents[1])]
    return list(dict.fromkeys(places))


def _raise_descriptor_limit() -> None:
    """Four descriptors per process are kept open: use all that the hard limit permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1 << 20 if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):  # sources then open files at each read
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def resolve(settings: Settings, options: argparse.Namespace) -> AgentSettings:
    """Settings of the agent. Raises ConfigError, NoInputError, UnavailableError, UsageError."""
    name = find(options.config) or "configuration"
    check_metrics(settings, {key: [m.name for m in each.metrics] for key, each in RESOURCE_SETS.items()}, name)
    _check_known(settings, name)
    probe = settings.probe
    host = settings.host.name or socket.gethostname()
    chosen, watched = tuple(modules(settings)), selection(probe.processes, name)
    shards = settings.shards
    if options.dir:
        shards = replace(shards, directory=options.dir)
    shards = endpoints.with_addresses(shards, options.shards)
    endpoints.check(shards)
    credentials = endpoints.credentials(shards) if not options.dry_run else None
    return AgentSettings(
        host,
        tuple(map(parse_address, shards.addresses)),
        str(endpoints.directory(shards)),
        credentials.username if credentials else "",
        credentials.password if credentials else "",
        credentials.owners if credentials else (),
        credentials.authority if credentials else "",
        credentials.password_file if credentials else "",
        shards.timeout_seconds,
        probe.ring_path or ring_path(host),
        probe.ring_bytes,
        probe.ring_seconds,
        probe.position_interval_seconds,
        probe.shed_after_seconds,
        probe.discovery_interval_seconds,
        chosen,
        watched,
        asdict(settings.checks),
        _compiler(options),
        options.ticks,
        options.seconds,
        options.dry_run,
        0.0 if options.wait == math.inf else max(options.wait, _SHORTEST_WAIT),
        None if options.dry_run else _signing(probe.signing, host),
        probe.vms.scope,
        log.levels(settings.log.levels, options.log),
    )


def _signing(settings: ProbeSigning, host: str) -> tuple[str, str] | None:
    """Key of this host. Raises NoInputError, ConfigError."""
    if not settings.key_file:
        return None
    key = signing_files.read_host_key(settings.key_file, host)
    return key.number.hex(), key.secret.hex()


_SOURCES = {"storage": "fio"}  #: of sets with one source other than procfs


def modules(settings: Settings) -> list[ModuleSettings]:
    """The enabled modules with chosen sources. Raises ConfigError if there are none."""
    probe = settings.probe
    found = []
    for name, resource_set in RESOURCE_SETS.items():
        module = getattr(probe, name)
        if module.enabled:
            source = getattr(module, "source", _SOURCES.get(name, AUTO))
            metrics = tuple(m.name for m in resource_set.metrics if not module.metrics or m.name in module.metrics)
            interval = module.interval_seconds or probe.interval_seconds
            source = sources.FALLBACK if source == AUTO else source
            found.append(ModuleSettings(name, source, interval, metrics, _options(probe, name)))
    if not found:
        raise ConfigError("no module is enabled: enable probe.host, probe.processes, probe.vms or probe.storage")
    return found


def _options(probe: Probe, name: str) -> dict[str, Any]:
    """Options that a source needs beside the choice of its metrics."""
    if name == "interfaces":
        return {"names": [translate(pattern) for pattern in probe.interfaces.names]}
    if name == "filesystems":
        return {"names": probe.filesystems.paths}
    return _of_storage(probe.storage) if name == "storage" else {}


def _of_storage(storage: StorageModule) -> dict[str, Any]:
    """Fields of probes.sources.storage.Options."""
    names = ("path", "size_bytes", "record_sizes", "seconds_per_point", "bytes_per_second", "idle")
    hours, _, minutes = storage.at.partition(":")
    phase = (3600.0 * int(hours) + 60.0 * int(minutes)) % storage.interval_seconds if storage.at else None
    return {**{name: getattr(storage, name) for name in names}, "phase": phase}


def _check_known(settings: Settings, name: str) -> None:
    """Refuse additions of other packages: the agent runs without them. Raises ConfigError."""
    for check in schema.fields(type(settings.checks)):
        if check not in checks.REGISTRY:
            raise ConfigError(f"{name}: key checks.{check}: the probe runs only the checks of its own package")
    for module in modules(settings):
        if (module.resource_set, module.source) not in sources.REGISTRY:
            key = f"probe.{module.resource_set}.source"
            raise ConfigError(f"{name}: key {key}: the probe runs only the sources of its own package")


def selection(processes: ProcessesModule, name: str) -> dict[str, Any]:
    """Fields of probes.processes.discovery.Selection. Raises ConfigError for an unknown user."""
    return {
        "every": processes.all,
        "commands": list(processes.commands),
        "uids": [_uid(user, name) for user in processes.users],
        "cgroups": [translate(pattern) for pattern in processes.cgroups],
        "pids": list(processes.pids),
        "limit": processes.limit,
        "daemons": processes.daemons,
    }


def _uid(user: str, name: str) -> int:
    if user.isdecimal():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError as error:
        raise ConfigError(f"{name}: key probe.processes.users: unknown user {user!r} on this host") from error


def _compiler(options: argparse.Namespace) -> tuple[str, ...]:
    """Command that resolves the configuration again, at SIGHUP."""
    arguments = ["--compile"]
    if options.config:
        arguments += ["--config", os.path.abspath(options.config)]
    if options.dir:
        arguments += ["--dir", os.path.abspath(options.dir)]
    if options.shards is not None:
        arguments += ["--shards", options.shards]
    if options.log:
        arguments += ["--log", options.log]
    if options.dry_run:
        arguments += ["--dry-run"]
    boot = f"import sys;sys.path[:0]={[path for path in sys.path if path]!r};sys.argv[0]='probe'"
    return (sys.executable, "-c", f"{boot};from probes.probe_command import run;run()", *arguments)


def run() -> None:
    """Run the command in its own process: errors go to stderr, and determine the exit code."""
    try:
        code = main(sys.argv[1:])
    except ShardpulseError as error:
        say(f"shardpulse probe: {error}", ERROR)
        code = error.exit_code
    sys.exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("probe", _DESCRIPTION, _EXAMPLES)
    help_text.add_shards(parser)
    help_text.add_wait(parser)
    help_text.add_directory(parser)
    help_text.add_seconds(parser)
    help_text.add_log(parser)
    parser.add_argument(
        "--ticks", type=help_text.whole(1, 10**9), default=0, metavar="N", help="stop after N ticks (default: never)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print each reading as one JSON object per line, without shards"
    )
    parser.add_argument(
        "--remove-ring",
        action="store_true",
        help="delete the ring of a stopped probe, with its unsent frames",
    )
    parser.add_argument("--compile", action="store_true", help="print the agent's resolved settings and exit")
    return parser


if __name__ == "__main__":
    run()
