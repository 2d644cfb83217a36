"""What a signal raises ends the command, wherever Python happens to be."""

from __future__ import annotations

import subprocess
import sys

from acquisition.errors import EXIT_INTERRUPTED
from tests.support import ROOT

_LOST = """
import signal, sys, time, weakref
from acquisition import cli

class Module:
    pass

def command(argv):
    module = Module()
    there = weakref.ref(module, lambda _: signal.raise_signal(signal.SIGINT))
    del module
    print("goes on", flush=True)
    time.sleep(60)
    return 0

signal.signal(signal.SIGINT, signal.default_int_handler)
cli._load = lambda name: command
sys.exit(cli.main(["status"]))
"""

_CLEARING_UP = """
import signal, sys, time
from acquisition import cli

def command(argv):
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        try:
            for _ in range(50):
                time.sleep(0.01)
                signal.raise_signal(signal.SIGINT)
            raise RuntimeError("a fault on the way")
        except RuntimeError:
            time.sleep(0.3)
        print("cleared up", flush=True)

signal.signal(signal.SIGINT, signal.default_int_handler)
cli._load = lambda name: command
sys.exit(cli.main(["status"]))
"""

_ELSEWHERE = """
import signal, threading
from acquisition.signals import raising

def inside():
    with raising((signal.SIGINT,), lambda _: KeyboardInterrupt()):
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN

signal.signal(signal.SIGINT, signal.SIG_IGN)
inside()
signal.raise_signal(signal.SIGINT)
thread = threading.Thread(target=inside)
thread.start()
thread.join()
print("unchanged")
"""

_PACKING = """
import signal
from acquisition.link.resp import packed

class Came(BaseException):
    pass

def raises(*_):
    raise Came

signal.signal(signal.SIGALRM, raises)
came = 0
while came < 500:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.000001 * came)
        while True:
            packed(("SETRANGE", "key", 5, 0.25, b"x"))
    except Came:
        came += 1
print("came", came)
"""


def run(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
    )


def test_ctrl_c_in_weakref_callback_ends_the_command() -> None:
    done = run(_LOST)
    assert (done.returncode, done.stdout) == (EXIT_INTERRUPTED, "goes on\n"), done.stderr


def test_clearing_up_is_not_disturbed() -> None:
    done = run(_CLEARING_UP)
    assert (done.returncode, done.stdout) == (EXIT_INTERRUPTED, "cleared up\n"), done.stderr


def test_other_thread_and_ignored_signals_are_unaffected() -> None:
    done = run(_ELSEWHERE)
    assert (done.returncode, done.stdout) == (0, "unchanged\n"), done.stderr


def test_signal_during_packing_of_numbers_does_not_crash() -> None:
    done = run(_PACKING)
    assert (done.returncode, done.stdout) == (0, "came 500\n"), done.stderr
