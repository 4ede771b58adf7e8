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
from benchmarks.measure import Samples, counted, lasting, percentile, repeated
from benchmarks.plan import Plan, pairs, pin
from benchmarks.processes import sleeps, started
from vkshare.server import Client, Kind, RenderServer, Route
from vkshare.server.messages import Body
from vkshare.server.request_types import Answer

_SPIN = 0x100
_CLIENTS, _FLOODERS = 32, 7


def run(plan: Plan) -> None:
    """No-ops against an echo of Python's; beside a client that renders, and beside floods; then nothing at all."""
    for where in pairs(plan.pinned_only):
        with plan.at(where):
            _no_op(plan)
    seconds = 0.2 if plan.quick else 5.0
    plan.progress(f"beside others, {seconds:g} s each")
    _beside_renderer(plan, seconds)
    _beside_flood(plan, seconds)
    _idle(plan, 0.5 if plan.quick else 5.0)


# ---- processes -------------------------------------------------------------------------------------------------------


class Seconds(Body):
    """How long a worker is to run Python."""

    seconds: float


def _spin(executor: Any, request: Any) -> Answer:
    for _ in lasting(request.body.seconds):
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
        count = 0
        for _ in lasting(seconds):
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


def _no_op(plan: Plan) -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far, started(_echo, far, patience=0) as echo, _server() as (path, pid), Client(path) as client:
        for peer in (echo.pid, pid):
            pin(plan.place.peer, peer)
        echoes = counted("sock.send(data); sock.recv(64)", sock=near, data=bytes(16))
        ways = {"ours": repeated(client.ping), "c": echoes}
        plan.race("no-op round trip", ways, most=1.5, against="a Python seqpacket echo")


def _beside_renderer(plan: Plan, seconds: float) -> None:
    """500 ms of Python at a time, in one worker after the other."""
    with _server() as (path, _), Client(path) as busy, Client(path) as light:
        light.create_fence().close()
        waits: Samples = []
        syncs: Samples = []
        for _ in lasting(seconds):
            busy.send(_SPIN, Seconds(0.5))
            waits += _timed(light.ping, 0.2)
            syncs += _timed(light.sync, 0.2)
            busy.ping()
    others = {"p50": percentile(waits, 50), "sync(), which needs Python's lock, p99": percentile(syncs, 99)}
    what = "no-op while another client's worker runs Python, p99"
    plan.own(what, percentile(waits, 99), most=5e-3, others=others)


def _beside_flood(plan: Plan, seconds: float) -> None:
    with _server() as (path, _), Client(path) as light, contextlib.ExitStack() as flooding:
        flooders = [flooding.enter_context(started(_flood, path, seconds, patience=0)) for _ in range(_FLOODERS)]
        for flooder in flooders:
            flooder.heard()
        for flooder in flooders:
            flooder.pipe.send("go")
        waits = _timed(light.ping, seconds, pause=2e-3)
        counts = [float(flooder.heard()) for flooder in flooders]
    jain = 100 * sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts))
    plan.own(f"no-op beside {_FLOODERS} that flood, p99", percentile(waits, 99), most=20e-3)
    plan.count("Jain's index of these, hundredths", jain, least=95)


def _timed(call: Any, seconds: float, pause: float = 0.0) -> Samples:
    waits: Samples = []
    for _ in lasting(seconds):
        start = time.perf_counter()
        call()
        waits.append(time.perf_counter() - start)
        time.sleep(pause)
    return waits


def _idle(plan: Plan, seconds: float) -> None:
    with _server() as (path, pid), contextlib.ExitStack() as connected:
        for _ in range(_CLIENTS):
            connected.enter_context(Client(path)).create_fence()
        time.sleep(0.3)
        woken = sleeps(pid, seconds)
    plan.count(f"wakeups of {_CLIENTS} idle clients' server in {seconds:g} s", woken, most=0)
