"""Measures the cost of a render server's answer beside other clients, and the wake-ups of an idle server."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import vkshare
from benchmarks import placement
from benchmarks.child import started
from benchmarks.loops import counted
from benchmarks.measure import Samples, percentile, repeated, sleeps, take_turns
from benchmarks.plan import Plan
from benchmarks.report import COUNT, TIME, Must, Row, own_row, row
from vkshare.server import Client, Kind, RenderServer, Route
from vkshare.server.messages import Body
from vkshare.server.request_types import Answer

_SPIN = 0x100
_CLIENTS, _FLOODERS = 32, 7


def run(plan: Plan) -> list[Row]:
    """No-ops against an echo of Python's; beside a client that renders, and beside floods; then nothing at all."""
    rows = []
    for where in placement.pairs(plan.pinned_only):
        plan.progress(f"no-ops, {where.name}")
        rows.append(_no_op(plan, where))
    seconds = 0.2 if plan.quick else 5.0
    plan.progress(f"beside others, {seconds:g} s each")
    return [*rows, *_beside_renderer(seconds), *_beside_flood(seconds), _idle(0.5 if plan.quick else 5.0)]


# ---- processes -------------------------------------------------------------------------------------------------------


class Seconds(Body):
    """How long a worker is to run Python."""

    seconds: float


def _spin(executor: Any, request: Any) -> Answer:
    end = time.monotonic() + request.body.seconds
    while time.monotonic() < end:
        pass
    return Answer()


def _serve(pipe: Connection, path: str) -> None:
    kinds = [Kind(_SPIN, Seconds, Route.CAN_FAIL, _spin)]
    with RenderServer(lambda: vkshare.open(backend="cpu"), path, kinds=kinds, patience=60.0) as server:
        pipe.send("ready")
        server.serve_forever()


def _echo(_: Connection, sock: socket.socket) -> None:
    while data := sock.recv(64):
        sock.send(data)


def _flood(pipe: Connection, path: str, seconds: float) -> None:
    with Client(path, timeout=60) as client:
        surface = client.create_surface(8, 8)
        commands = client.record().clear(surface, (1, 0, 0, 1))
        client.submit(commands, acquire={surface: 0})
        client.ping()
        pipe.send("ready")
        pipe.recv()
        count, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(20):
                client.submit(commands)
            client.ping()
            count += 20
        pipe.send(count)


@contextlib.contextmanager
def _server() -> Iterator[tuple[str, int]]:
    """A server in a process of its own: its path and pid."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "server")
        with started(_serve, path, patience=0) as child:
            child.heard()
            yield path, child.pid


# ---- rows ------------------------------------------------------------------------------------------------------------


def _no_op(plan: Plan, where: placement.Placement) -> Row:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with (
        near,
        far,
        started(_echo, far, patience=0) as echo,
        _server() as (path, pid),
        Client(path) as client,
        placement.placed(where),
    ):
        for peer in (echo.pid, pid):
            placement.pin(where.peer, peer)
        echoes = counted("sock.send(data); sock.recv(64)", sock=near, data=bytes(16))
        samples = take_turns({"ours": repeated(client.ping), "c": echoes}, plan.seconds)
    return row("no-op round trip", where.name, samples, Must(1.5), against="a Python seqpacket echo")


def _beside_renderer(seconds: float) -> list[Row]:
    """500 ms of Python at a time, in one worker after the other."""
    with _server() as (path, _), Client(path) as busy, Client(path) as light:
        light.create_fence().close()
        waits: Samples = []
        syncs: Samples = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            busy.send(_SPIN, Seconds(0.5))
            waits += _timed(light.ping, 0.2)
            syncs += _timed(light.sync, 0.2)
            busy.ping()
    p99 = percentile(waits, 99)
    others = {"p50": percentile(waits, 50), "sync(), which needs Python's lock, p99": percentile(syncs, 99)}
    what = "no-op while another client's worker runs Python, p99"
    return [own_row(what, p99, TIME, Must(5e-3), others=others)]


def _beside_flood(seconds: float) -> list[Row]:
    with _server() as (path, _), Client(path) as light, contextlib.ExitStack() as flooding:
        flooders = [flooding.enter_context(started(_flood, path, seconds, patience=0)) for _ in range(_FLOODERS)]
        for flooder in flooders:
            flooder.heard()
        for flooder in flooders:
            flooder.pipe.send("go")
        waits = _timed(light.ping, seconds, pause=2e-3)
        counts = [float(flooder.heard()) for flooder in flooders]
    p99 = percentile(waits, 99)
    jain = 100 * sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts))
    return [
        own_row(f"no-op beside {_FLOODERS} that flood, p99", p99, TIME, Must(20e-3)),
        own_row("Jain's index of these, hundredths", jain, COUNT, Must(95.0, at_least=True)),
    ]


def _timed(call: Any, seconds: float, pause: float = 0.0) -> Samples:
    waits: Samples = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.perf_counter()
        call()
        waits.append(time.perf_counter() - start)
        time.sleep(pause)
    return waits


def _idle(seconds: float) -> Row:
    with _server() as (path, pid), contextlib.ExitStack() as connected:
        for _ in range(_CLIENTS):
            connected.enter_context(Client(path)).create_fence()
        time.sleep(0.3)
        before = sleeps(pid)
        time.sleep(seconds)
        woken = sleeps(pid) - before
    what = f"wakeups of {_CLIENTS} idle clients' server in {seconds:g} s"
    return own_row(what, woken, COUNT, Must(0.0))
