"""Relay process of one link, between a host's port and the bridge."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from typing import Any

from acquisition import lifeline
from acquisition.errors import CannotCreateError
from experiments.testbed import relay
from experiments.testbed.commands import run, succeeds
from experiments.testbed.namespace import Namespace

_SECONDS = 10.0


class RelayProcess:
    """Takes ``port`` off the bridge and connects both until ``stop`` plugs it in again. Raises CannotCreateError if
    that is not possible, with the port in its old place.
    """

    def __init__(self, port: str, switch: Namespace) -> None:
        self._port = port
        self._switch = switch
        self._outlet = f"{port}b"
        inner = f"{port}r"
        with switch.inside():
            run("ip", "link", "add", inner, "type", "veth", "peer", "name", self._outlet)
            try:
                run("ip", "link", "set", inner, "up")
                command = lifeline.tied([sys.executable, "-I", "-S", relay.__file__, port, inner])
                self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            except BaseException:
                succeeds("ip", "link", "delete", inner)
                raise

    def become(self, conditions: dict[str, Any]) -> None:
        """Set the conditions; they hold when this returns."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps(conditions).encode() + b"\n")
            self._child.stdin.flush()
            ready, _, _ = select.select([self._child.stdout], [], [], _SECONDS)
            answer = self._child.stdout.readline() if ready else b""
        except OSError as error:
            raise CannotCreateError(f"the relay of {self._port} has ended: {error}") from error
        if answer != b"ok\n":
            raise CannotCreateError(f"the relay of {self._port} did not take its conditions")
        self._plug(self._outlet)

    def stop(self) -> None:
        """End the relay; frames it still held are lost, as if the cable had been pulled for a moment."""
        self._child.kill()
        self._child.communicate()
        with self._switch.inside():
            succeeds("ip", "link", "delete", self._outlet)
        self._plug(self._port)

    def _plug(self, interface: str) -> None:
        """Make this interface, and not the other one, the host's port of the bridge."""
        with self._switch.inside():
            if interface == self._outlet:
                run("ip", "link", "set", self._port, "nomaster")
                run("ip", "link", "set", interface, "master", "bridge0", "up")
            else:
                run("ip", "link", "set", interface, "master", "bridge0")
