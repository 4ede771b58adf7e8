"""Random messages to a render server with a compositor, most of them nearly right: what a hostile client can send.

    python -m support.message_fuzz [MESSAGES] [SEED]      against `vkshare serve` in a process of its own

The server runs in Python's development mode with faulthandler. It must stay alive, answer an honest client within
HANG seconds, write nothing of an exception to its standard error, and end cleanly.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vkshare as vks
from support.render_servers import Raw
from vkshare.compositor import messages as c
from vkshare.server import messages as m

HANG = 10.0  # seconds
MALFORMED = 0.01  # of the messages: each ends its connection, as a rule
TROUBLE = ("Traceback", "Exception ignored", "Fatal Python error", "ResourceWarning", "Error:")


@dataclass(frozen=True)
class Report:
    """What a run did. `trouble`: lines of the server's standard error that it should not have."""

    messages: int
    connections: int
    requests: int  # that the server took for requests
    seconds: float
    slowest: float  # seconds that the honest client waited
    status: int | None  # of the server's end
    trouble: str


class Liar:
    """Makes messages. Holds what the true ones among them are about."""

    def __init__(self, rng: random.Random, made: contextlib.ExitStack) -> None:
        self.rng = rng
        device = made.enter_context(vks.open(backend="cpu", name="liar"))
        self.surface = made.enter_context(device.create_surface(16, 16))
        fence = made.enter_context(device.create_fence())
        sender, pipe = vks.pipe(device, 16, 16)
        made.enter_context(sender)
        self._descriptors = [
            made.enter_context(each) for each in (self.surface.export(), fence.export(), made.enter_context(pipe))
        ]

    def message(self, raw: Raw) -> tuple[bytes, list[int]]:
        """Its bytes and its fds, which stay here."""
        rng = self.rng
        is_garbage = rng.random() < MALFORMED
        opcode = rng.choice([*m.Op, *c.Op, rng.randrange(1 << 16)] if is_garbage else [*_BODIES])
        if opcode in (m.Op.SYNC, m.Op.WAIT) and rng.random() < 0.95:
            opcode = m.Op.STATISTICS  # these may wait for ever, and the rest behind them
        made, fds = _BODIES.get(opcode, Liar._noise)(self)
        body = m.encode(made) if isinstance(made, m.Body) else made
        if is_garbage:
            body = rng.choice([body, b"", rng.randbytes(rng.randrange(40)), body + b"\xc0", body[:-1]])
            fds = rng.choice([fds, [rng.choice([0, *self._all_fds()]) for _ in range(rng.randrange(5))]])
        data = bytearray(raw.packed(opcode, body, len(fds)))
        if is_garbage and rng.random() < 0.5:
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data), fds

    def _all_fds(self) -> Iterator[int]:
        for descriptor in self._descriptors:
            yield from descriptor._fds

    # ---- parts of bodies --------------------------------------------------------------------------------------------

    def _id(self) -> int:
        return self.rng.choice([1, 1, 2, 3, 4, self.rng.randrange(1, 1 << 32)])

    def _number(self) -> float:
        return self.rng.choice([0.0, 0.5, 1.0, -1.0, 17.5, 1e30, math.nan, math.inf, self.rng.uniform(-100, 100)])

    def _value(self) -> int:
        return self.rng.choice([1, 2, 3, (1 << 63) - 1, (1 << 64) - 1])

    def _rect(self) -> tuple[int, int, int, int]:
        return tuple(self.rng.choice([-1, 0, 1, 8, 16, 1 << 30]) for _ in range(4))  # type: ignore[return-value]

    def _colour(self) -> tuple[float, float, float, float]:
        return self._number(), self._number(), self._number(), self._number()

    def _descriptor(self, *kinds: int) -> tuple[bytes, list[int]]:
        """Of one of these kinds, now and then of another, or with a byte changed."""
        descriptor = self._descriptors[self.rng.choice(kinds if self.rng.random() < 0.9 else (0, 1, 2))]
        data = bytearray(descriptor.to_bytes())
        if self.rng.random() < 0.2:
            data[self.rng.randrange(len(data))] = self.rng.randrange(256)
        return bytes(data), list(descriptor._fds)

    def _drawn(self) -> Any:
        a, b, rng = self._id(), self._id(), self.rng
        return rng.choice(
            [
                m.ClearOp(a, self._colour()),
                m.FillRectOp(a, self._rect(), self._colour()),
                m.CopyOp(a, b, rng.choice([None, self._rect()]), (rng.randrange(-2, 20), 0)),
                m.BlitOp(a, b, None, rng.choice([None, self._rect()]), "linear"),
                m.CompositeOp(
                    a, b, (0, rng.randrange(-2, 20)), self._number(), rng.choice(["straight", "premultiplied"])
                ),
                m.DrawTrianglesOp(
                    a,
                    rng.randbytes(4 * rng.choice([0, 1, 6, 18, 24])),
                    rng.choice([2, 6, 8]),
                    None,
                    "nearest",
                    rng.choice([None, None, b]),
                    "always",
                    rng.random() < 0.5,
                ),
            ]
        )

    def _pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple((self._id(), self._value()) for _ in range(self.rng.choice([0, 0, 1, 2])))

    # ---- bodies -----------------------------------------------------------------------------------------------------

    def _noise(self) -> tuple[Any, list[int]]:
        return self.rng.randbytes(self.rng.randrange(30)), []

    def _create_surface(self) -> tuple[Any, list[int]]:
        rng = self.rng
        form = rng.choice(["rgba8unorm", "bgra8unorm", "r8unorm", "nv12", "i420", "nonsense"])
        color = rng.choice(
            [None, None, ("bt2020", "pq", "bt2020", "limited", "left"), ("bt709", "srgb", "rgb", "", "left")]
        )
        size, usage = (rng.randrange(1, 40), rng.choice([1, 4, 33])), ("copy", "render", "sample")
        return m.CreateSurface(self._id(), *size, form, "auto", usage, color), []

    def _open_surface(self) -> tuple[Any, list[int]]:
        data, fds = self._descriptor(0)
        return m.OpenSurface(self._id(), data), fds

    def _open_fence(self) -> tuple[Any, list[int]]:
        data, fds = self._descriptor(1)
        return m.OpenFence(self._id(), data), fds

    def _submit(self) -> tuple[Any, list[int]]:
        drawn = tuple(self._drawn() for _ in range(self.rng.choice([0, 1, 1, 3])))
        acquires = tuple((drawing.target, self.rng.choice([0, 1])) for drawing in drawn)
        signals = tuple((self._id(), self.rng.choice([None, self._value()])) for _ in range(self.rng.choice([0, 0, 1])))
        return m.Submit(acquires, drawn, self._pairs(), signals, tuple((one, 0) for one, _ in acquires)), []

    def _open_window(self) -> tuple[Any, list[int]]:
        rng = self.rng
        kind = rng.choice(["pipe", "surface"])
        data, fds = self._descriptor(2 if kind == "pipe" else 0)
        at, keys = (self._number(), self._number()), (rng.choice([0, 1]), rng.choice([0, 1]))
        output = rng.choice([0, 0, 0, 1, 255])
        body = c.Open(
            self._id(), output, "window", at, self._number(), rng.random() < 0.5, rng.random() < 0.5, keys,
            kind, data,  # type: ignore[arg-type]
        )  # fmt: skip
        return body, fds


_BODIES: dict[int, Callable[[Liar], tuple[Any, list[int]]]] = {
    m.Op.NO_OP: lambda self: (b"", []),
    m.Op.STATISTICS: lambda self: (b"", []),
    m.Op.CREATE_SURFACE: Liar._create_surface,
    m.Op.OPEN_SURFACE: Liar._open_surface,
    m.Op.CLOSE_SURFACE: lambda self: (m.Close(self._id()), []),
    m.Op.CREATE_FENCE: lambda self: (m.CreateFence(self._id(), self._value() - 1), []),
    m.Op.OPEN_FENCE: Liar._open_fence,
    m.Op.CLOSE_FENCE: lambda self: (m.Close(self._id()), []),
    m.Op.SUBMIT: Liar._submit,
    m.Op.SYNC: lambda self: (b"", []),
    m.Op.WAIT: lambda self: (m.Wait(self._id(), self._value()), []),
    c.Op.OPEN: Liar._open_window,
    c.Op.MOVE: lambda self: (c.Move(self._id(), self._number(), self._number(), self._number()), []),
    c.Op.FADE: lambda self: (c.Fade(self._id(), self._number(), self._number()), []),
    c.Op.STACK: lambda self: (c.Stack(self._id(), self.rng.random() < 0.5), []),
    c.Op.SEND: lambda self: (c.Send(self._id(), self.rng.choice([0, 1, 255])), []),
    c.Op.CLOSE: lambda self: (c.Close(self._id(), self._number()), []),
    c.Op.STATISTICS: lambda self: (c.WindowId(self._id()), []),
}


def run(messages: int, seed: int) -> Report:
    """Sends so many messages to a server of its own."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "stderr", "w+") as errors:
        path = Path(folder) / "server"
        command = [sys.executable, "-X", "dev", "-m", "vkshare", "serve", "--headless", "--backend", "cpu"]
        environment = {**os.environ, "PYTHONFAULTHANDLER": "1", "PYTHONDEVMODE": "1"}
        server = subprocess.Popen(
            [*command, "--path", os.fspath(path), "--size", "64x48"],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
        )
        try:
            assert server.stdout is not None
            server.stdout.readline()  # where it listens
            sent, connections, requests, seconds, slowest = _talk(path, rng, messages)
            server.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(60)
        finally:
            status = server.poll()
            server.kill()
            server.wait()
            server.stdout.close()  # type: ignore[union-attr]
        errors.seek(0)
        lines = [line for line in errors if any(word in line for word in TROUBLE)]
        return Report(sent, connections, requests, seconds, slowest, status, "".join(lines[:40]))


def _talk(path: Path, rng: random.Random, messages: int) -> tuple[int, int, int, float, float]:
    start, slowest, sent, connections = time.monotonic(), 0.0, 0, 0
    with contextlib.ExitStack() as made:
        liar = Liar(rng, made)
        honest = made.enter_context(vks.server.Client(path, "honest", HANG))
        while sent < messages:
            connections += 1
            with contextlib.suppress(OSError), Raw(path) as raw:
                raw.sock.settimeout(HANG)
                if rng.random() < 0.95:
                    raw.hello()
                sent += _lie(liar, raw, rng.choice([1, 10, 100, 300]))
            asked = time.monotonic()
            honest.ping()
            if rng.random() < 0.1:
                honest.create_surface(4, 4).close()
                honest.sync()
            slowest = max(slowest, time.monotonic() - asked)
        seconds = time.monotonic() - start
        requests = int(honest.statistics()["requests"])
    return sent, connections, requests, seconds, slowest


def _lie(liar: Liar, raw: Raw, count: int) -> int:
    """Sends as many; or fewer, where the server ends the connection, or reads no further: one may wait for what no
    other will ever signal.
    """
    for number in range(count):
        try:
            raw.sock.setblocking(False)
            raw.write(*liar.message(raw))
            if number % 20 == 19 or number == count - 1:
                raw.sock.settimeout(0.3)
                asked = raw.send(m.Op.STATISTICS)
                while (message := raw.receive()).sequence != asked:
                    message.close()
        except (OSError, EOFError):
            return number + 1
    return count


if __name__ == "__main__":
    reported = run(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(reported)
    print(f"{reported.messages / reported.seconds:.0f} messages a second")
    sys.exit(bool(reported.status or reported.trouble))
