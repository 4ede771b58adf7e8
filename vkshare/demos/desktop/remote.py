"""`vkshare demo desktop --remote`: the host, a bad network, and the viewer in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import vkshare
from vkshare.demos.desktop import equality
from vkshare.demos.process import DemoError
from vkshare.remote import Host
from vkshare.testing.link import LinkProxy
from vkshare.util.closing import Scoped

_END = 20.0  # seconds for the viewer to end
_SETTLE = 0.5  # seconds in which the last pictures are shown


@dataclass(frozen=True, slots=True)
class Network:
    """The link between host and viewer.

    Attributes
    ----------
    delay
        Seconds each way.
    rate
        Bytes a second, each way.
    loss
        Fraction of the packets.
    """

    delay: float = 0.1
    rate: float = 2.5e6
    loss: float = 0.01


class Remote(Scoped):
    """While it is open, programs that this process starts draw at a viewer behind that network."""

    def __init__(self, network: Network, backend: str, *, headless: bool) -> None:
        token = secrets.token_urlsafe()
        with contextlib.ExitStack() as made:
            self._host = made.enter_context(Host("127.0.0.1:0", token=token))
            self._link = made.enter_context(
                LinkProxy(self._host.address, seed=1, delay=network.delay, rate=network.rate, loss=network.loss)
            )
            self._command = [
                sys.executable,
                "-m",
                "vkshare",
                "viewer",
                self._link.address,
                "--json",
                "--backend",
                backend,
            ]
            self._environment = {**os.environ, "VKSHARE_REMOTE_TOKEN": token}
            self._environment.pop("VKSHARE_BACKEND", None)
            self._backend = backend
            self._viewer = self._start(*(["--headless"] if headless else []))
            made.callback(self._end_viewer)
            os.environ["VKSHARE_REMOTE"] = os.fspath(self._host.path)
            made.callback(os.environ.pop, "VKSHARE_REMOTE", None)
            self._made = made.pop_all()

    def check(self) -> None:
        """Raises DemoError once the viewer has ended."""
        if self._viewer.poll() is not None:
            raise DemoError(f"the viewer has ended, exit status {self._viewer.returncode}")

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts a viewer."""
        command = [*self._command, *arguments]
        return subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE, text=True)

    def report(self) -> dict[str, Any]:
        """Ends the viewer; returns what travelled, and what was shown."""
        link = self._host.statistics()
        return {
            "viewer": self._ended(),
            "sent": link.bytes_sent,
            "received": link.bytes_received,
            "round_trip": link.round_trip,
            "resumes": link.resumes,
            "replaced": link.outbox.replaced,
        }

    def compare(self) -> equality.Equality:
        """Has another viewer show pictures by their number, and compares them with a local run's."""
        self._end_viewer()
        del os.environ["VKSHARE_REMOTE"]  # the local run is of this machine's devices
        local = equality.local_digests(lambda name: vkshare.open(backend=self._backend, name=name))
        self._viewer = self._start("--headless", "--digests", equality.TITLE)
        equality.show(self._host, settle=_SETTLE)
        return equality.compared(local, self._ended()["digests"])

    def _ended(self) -> dict[str, Any]:
        """Ends the viewer; returns what it says."""
        with contextlib.suppress(ProcessLookupError):
            self._viewer.terminate()
        try:
            output, _ = self._viewer.communicate(timeout=_END)
        except subprocess.TimeoutExpired:
            raise DemoError(f"the viewer did not end within {_END:g} s") from None
        lines = [line for line in output.splitlines() if line.startswith("{")]
        if not lines:
            raise DemoError(f"the viewer said nothing at its end, exit status {self._viewer.returncode}")
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    def _end_viewer(self) -> None:
        if self._viewer.poll() is None:
            self._viewer.kill()
        self._viewer.wait()
        assert self._viewer.stdout is not None
        self._viewer.stdout.close()

    def close(self) -> None:
        """Ends all of it. Idempotent."""
        self._made.close()
