"""``shardpulse serve``: answer over HTTP until stopped."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from threading import Event, Timer

from acquisition import errors, help_text, log
from acquisition.config.endpoints import check, credentials, directory, with_addresses
from acquisition.config.metric_registry import load_checked
from acquisition.config.settings import Settings
from acquisition.errors import AdmissionError, ShardpulseError, UnavailableError, UsageError
from acquisition.supervision import end_with_threads
from filters.service.http.access import Access, access
from filters.service.http.server import Server, allow_descriptors, listen, obey_signals, server
from filters.service.service import Service

_DESCRIPTION = """\
Serve schedulers, dashboards and browsers over HTTP: one coherent snapshot per tick with its hot hosts (found
overloaded by the rule of [decisions]) and proposed moves,
as JSON under /v1, as OpenMetrics under /metrics, as server-sent events
under /v1/stream, as a page under /. /openapi.json describes the interface. An unchanged answer costs
a 304; missing values are null; errors are problem documents (RFC 9457). While the shards
cannot be read, answers are 503 with the age of the last snapshot.

It listens on loopback. Any other address requires a token and TLS ([serve] token_file,
tls_certificate, tls_key). Writing (POST) requires a separate token, on loopback too:
[serve] write_token_file, or writer.token in the directory of the local shards. SIGTERM and Ctrl-C
stop it gracefully, also while streams are open; SIGHUP reloads tokens, certificate, [log] and the labels
of [decisions]."""

_EXAMPLES = """
shardpulse serve                                            http://127.0.0.1:7680
shardpulse serve --bind 127.0.0.1:0                         any free port, which is printed
curl -s --compressed localhost:7680/v1/hot                  overloaded hosts, with reasons
curl -s 'localhost:7680/v1/hosts?state=late&fields=reason'  silent hosts
curl -N localhost:7680/v1/stream?topic=hot                  sent at every tick
curl -s -H 'If-None-Match: W/"..."' -i localhost:7680/v1/moves
"""
say = log.category("serve")  #: messages to people


def main(argv: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(argv)
    settings = _settings(options)
    end_with_threads(say.error)
    log.apply(log.levels(settings.log.levels, options.log))
    where = _access(settings)
    refused: list[AdmissionError] = []

    def refuse(error: AdmissionError) -> None:
        refused.append(error)
        running.should_exit = True

    service = Service(settings, where, refuse)
    running = server(service.app, where, settings.serve.limits, service.close_streams)
    allow_descriptors(settings.serve.limits.connections)
    listener = listen(where)
    obey_signals(running, lambda: _reload(options, service, running))
    scheme = "https" if where.certificate else "http"
    host, port = listener.getsockname()[:2]
    print(f"shardpulse serve: {scheme}://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
    gave_up = Event()

    def give_up() -> None:
        if service.newest.last is None:
            gave_up.set()
            running.should_exit = True

    if options.wait < math.inf:
        timer = Timer(options.wait, give_up)
        timer.daemon = True
        timer.start()
    running.run(sockets=[listener])
    if refused:
        raise refused[0]
    if gave_up.is_set():
        outage = service.newest.outage
        raise UnavailableError(f"no shard has answered for {options.wait:g} s: {outage.reason if outage else ''}")
    return errors.EXIT_OK


def _reload(options: argparse.Namespace, service: Service, running: Server) -> None:
    """Apply a new token, certificate, labels and log levels; everything else is unchanged since the start."""
    service.notifier.reloading()
    try:
        settings = _settings(options)
        where = _access(settings)
        if running.context is not None and where.certificate:
            running.context.load_cert_chain(where.certificate, where.key)
        service.access = where
        service.label(settings.decisions)
        log.apply(log.levels(settings.log.levels, options.log))
        say("tokens, certificate, labels and log levels reloaded")
    except ShardpulseError as error:
        say.warn(f"{error}; tokens, certificate, labels and log levels unchanged")
    service.notifier.reloaded()


def _access(settings: Settings) -> Access:
    return access(settings.serve, "" if settings.shards.addresses else str(directory(settings.shards)))


def _settings(options: argparse.Namespace) -> Settings:
    settings = load_checked(options.config)
    shards = with_addresses(settings.shards, options.shards)
    check(shards)
    credentials(shards)  # reread at each connection: this checks that they are usable
    serve = settings.serve
    if options.bind is not None:
        host, _, port = options.bind.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise UsageError(f"--bind: invalid address {options.bind!r}: expected HOST:PORT")
        serve = replace(serve, bind=options.bind)
    return replace(settings, shards=shards, serve=serve)


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("serve", _DESCRIPTION, _EXAMPLES)
    parser.add_argument(
        "--bind", metavar="HOST:PORT", help="address to listen on instead of [serve] bind; port 0: any free port"
    )
    help_text.add_wait(parser)
    help_text.add_log(parser)
    help_text.add_shards(parser)
    return parser
