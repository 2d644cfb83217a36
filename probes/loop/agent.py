"""Agent: the lean process on every host, started by ``shardpulse probe``.

It replaces the process of the command.

SIGHUP rereads the configuration, in a child, so that ticks continue meanwhile; a bad one
changes nothing. SIGTERM and SIGINT stop in order: tools first, then the outbox is
sent for a bounded time. Unsent frames stay in the ring file for the next start.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import time
from collections.abc import Callable

from acquisition import log
from acquisition.errors import (
    EXIT_FAILURE,
    EXIT_INTERNAL,
    EXIT_OK,
    AdmissionError,
    ShardpulseError,
    UnavailableError,
)
from acquisition.link.local_shards import LocalShards
from acquisition.link.resp import Address
from acquisition.link.trust.credentials import Credentials
from acquisition.log import SHARDS, TroubleLog
from acquisition.model.identity import host_id
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.writer import Writer
from acquisition.supervision import Notifier, name_process
from acquisition.wire.rejected import LIMIT, SIGNATURE
from probes.loop.account import lacking
from probes.loop.agent_settings import AgentSettings, Reload, decode
from probes.loop.probe import Outlet, Probe
from probes.sampling.native import chosen

_DRAIN_SECONDS = 3.0
_NAME = "name"  #: the problem that another machine has the same name
_REFUSED = "refused"  #: the problem that the filter rejects its frames
_DEBUG = "SHARDPULSE_DEBUG"


report = log.category("probe")  #: one line for the operator


def main(descriptor: int) -> int:
    """Run with the settings in the file ``descriptor`` until stopped; returns the exit code."""
    name_process("probe")
    agent = None
    try:
        with os.fdopen(descriptor, "rb") as file:
            settings = decode(file.read())
        log.apply(settings.log or {})
        agent = Agent(settings)
        return agent.run()
    except ShardpulseError as error:
        report.error(str(error))
        return error.exit_code
    except Exception as error:
        return _unexpected(error)
    finally:
        if agent is not None:
            agent.close()


def _unexpected(error: Exception) -> int:
    if isinstance(error, BrokenPipeError):  # no rest of a long line remains that would fail again
        _output_failed()
        return EXIT_OK  # the reader (head, a pager) is done
    if isinstance(error, OSError) and (_output_failed() or error.errno == errno.ENOSPC):
        report.error(f"cannot write output: {error.strerror}")
        return EXIT_FAILURE
    if os.environ.get(_DEBUG):
        import traceback

        report.error(traceback.format_exc())
    report.error(f"internal error (bug): {type(error).__name__}: {error}; set {_DEBUG}=1 for a traceback")
    return EXIT_INTERNAL


def _output_failed() -> bool:
    """Whether unwritten output remains; if so it is discarded, as Python would try once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _described(settings: AgentSettings) -> str:
    modules = ", ".join(f"{module.resource_set} every {module.interval:g} s" for module in settings.modules)
    return f"sampling {settings.host}: {modules}"


def _signer(number: str, secret: str) -> Callable[[bytes], bytes]:
    from acquisition.wire import signature  # it loads OpenSSL, needed only for signing

    return signature.signer(signature.HostKey(bytes.fromhex(number), bytes.fromhex(secret)))


def _why_refused(reason: str) -> str:
    if reason == SIGNATURE:
        return "signature: a signature of this host is required ([probe.signing] key_file)"
    if reason == LIMIT:
        return "limit: this host exceeds [filter.limits] of the filter; `shardpulse status` says which"
    return reason


class Agent:
    """Signals, the writer, and the end."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._signals: list[int] = []
        self._wakeup, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._take_signal)
        self._writer: Writer | None = None
        self._log = TroubleLog(report)
        self._sending = False  #: whether the destination has been reported
        self._was_well = False  #: condition of the writer at the last check
        self._give_up = time.monotonic() + settings.wait if settings.wait else 0.0
        self._probe = Probe(settings, self._outlet(settings), report)
        self._reload = Reload(report.warn)
        self._reloads = False  #: whether the configuration is being reread
        self._notifier = Notifier()

    def _take_signal(self, number: int, frame: object) -> None:
        del frame
        self._signals.append(number)

    def _outlet(self, settings: AgentSettings) -> Outlet:
        if settings.dry_run:
            from probes.loop.dry_run import DryRun

            return DryRun()
        if self._writer is not None:
            self._writer.close()
        outbox = Outbox(settings.ring_path or None, settings.ring_bytes, settings.ring_seconds)
        self._writer = Writer(
            host_id(settings.host),
            settings.host,
            [Address(host, port) for host, port in settings.seeds] or LocalShards(settings.state_directory),
            Credentials(
                settings.username, settings.password, settings.owners, settings.authority, settings.password_file
            ),
            outbox,
            position_interval=settings.position_interval,
            timeout=settings.timeout,
            shed_after=settings.shed_after,
        )
        if settings.signing is not None:
            self._writer.sign_with(_signer(*settings.signing))
        if outbox.denied:
            report.warn(f"{outbox.denied}; frames are kept in memory, and unsent ones are lost when this probe exits")
        return self._writer

    def run(self) -> int:
        """The loop; returns the exit code."""
        end = time.monotonic() + self._settings.seconds if self._settings.seconds else float("inf")
        sys.path_importer_cache.clear()  # lists of the files beside those that were imported
        gc.collect()
        gc.freeze()
        gc.disable()  # the loop makes no cycles; those left by a reload are collected then
        self._notifier.ready()
        if (missing := lacking()) and {"processes", "vms"} & {module.name for module in self._probe.modules}:
            report(f"running without {missing}")
        while not self._stopped() and time.monotonic() < end:
            compiler = self._reload.fileno()
            also = compiler if compiler >= 0 else self._wakeup
            if self._probe.step(also, self._notifier.due) and also == self._wakeup:
                os.read(self._wakeup, 4096)
            self._handle_reload()
            if self._writer is not None:
                self._report_writer(self._writer)
            self._notifier.turn(self._condition)
        return self._end()

    def _stopped(self) -> bool:
        if self._signals and signal.SIGHUP in self._signals:
            self._signals = [number for number in self._signals if number != signal.SIGHUP]
            self._notifier.reloading()
            self._reloads = True
            self._reload.start(self._settings.compiler)
        if self._signals or not self._settings.ticks:
            return bool(self._signals)
        return self._settings.ticks <= max((module.schedule.ticks for module in self._probe.modules), default=0)

    def _condition(self) -> str:
        """Condition of the probe, as systemctl status shows it."""
        if self._log.trouble or self._writer is None:
            return self._log.trouble or _described(self._settings)
        return f"{_described(self._settings)}; sending to shard {self._writer.address}"

    def _handle_reload(self) -> None:
        if not self._reloads:
            return
        settings = self._reload.finished()
        if self._reload.fileno() < 0:
            self._reloads = False
            self._notifier.reloaded()
        if settings is None:
            return
        old = self._settings
        settings = settings._replace(ticks=old.ticks, seconds=old.seconds)
        try:
            self._apply(settings, old)
            report("new configuration in effect")
        except ShardpulseError as error:  # such as a ring that is not available
            report.warn(f"{error}; configuration unchanged")
            self._apply(old, settings)
        gc.collect()
        gc.freeze()

    def _apply(self, settings: AgentSettings, old: AgentSettings) -> None:
        same = old.connection() == settings.connection()
        self._probe.reload(settings, self._probe.outlet if same else self._outlet(settings))
        if same and settings.signing != old.signing and self._writer is not None:
            self._writer.sign_with(None if settings.signing is None else _signer(*settings.signing))
        log.apply(settings.log or {})
        self._settings = settings

    def _report_writer(self, writer: Writer) -> None:
        """Report new and ended problems; nothing more once everything is reported as well."""
        is_well = writer.is_well
        if not (is_well and self._was_well):
            self._report_shards(writer)
            self._report_contest(writer)
            self._report_refusal(writer)
        self._was_well = is_well

    def _report_shards(self, writer: Writer) -> None:
        """Report the destination once frames are sent, the reason they are not sent, and its end.

        Raises UnavailableError if no shard has answered within the permitted time, AdmissionError if contact with the
        first one is not permitted: later on such errors only delay frames.
        """
        problem = writer.problem
        if problem:
            kind = problem if writer.needs_a_person else ""
            self._log.lasts(SHARDS, f"{problem}; frames are kept", kind)
            if writer.not_admitted and not self._sending:
                raise AdmissionError(problem)
            if self._give_up and not self._sending and time.monotonic() > self._give_up:
                raise UnavailableError(f"no shard answered within {self._settings.wait:g} s: {problem}")
        elif not self._sending:
            self._sending = True
            self._log.over(SHARDS)
            report(f"{_described(self._settings)}; {chosen().text}; sending to shard {writer.address}")
        elif self._log.trouble:
            self._log.over(SHARDS, f"sending again, to shard {writer.address}")

    def _report_contest(self, writer: Writer) -> None:
        """Report that another machine has the same name, and the end of that."""
        if writer.contested:
            host = f"host {self._settings.host} (this one has {self._probe.machine})"
            told = (
                f"two senders use the name of {host}: none of its figures is VALID, and frames of the "
                "younger sender are refused"
            )
            self._log.lasts(_NAME, f"{told}; give each machine its own name ([host] name)", patience=0.0)
        else:
            self._log.over(_NAME, f"no other sender uses the name of host {self._settings.host} any more")

    def _report_refusal(self, writer: Writer) -> None:
        """Report that the filter refuses the frames, and when it accepts them again."""
        if writer.refused:
            told = f"the filter refuses the frames of host {self._settings.host}: {_why_refused(writer.refused)}"
            self._log.lasts(_REFUSED, f"{told}; they are kept", patience=0.0)
        else:
            self._log.over(_REFUSED, f"frames of host {self._settings.host} are accepted again")

    def _end(self) -> int:
        self._notifier.stopping("sending remaining frames")
        for number in (signal.SIGTERM, signal.SIGINT):  # a second one ends the drain
            signal.signal(number, signal.SIG_DFL)
        self._probe.close()
        if self._writer is not None:
            self._writer.set_extra_status(self._probe.account())
            if not self._writer.finish(_DRAIN_SECONDS):
                unsent = self._writer.account()["unsent_frames"]
                report.warn(f"stopped with {unsent} unsent frames, which are sent after the next start")
            self._writer.close()
        return EXIT_OK

    def close(self) -> None:
        """Stop the tools and release the ring, however ``run`` has ended."""
        self._probe.close()
        if self._writer is not None:
            self._writer.close()
