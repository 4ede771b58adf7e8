"""Clients that die, stop, flood, lie or do not listen, and no file descriptors left. Rules R2, R8, R10 to R13."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from support.child_processes import in_child
from support.fd_counts import no_fd_left, open_fds
from support.render_servers import Place, Raw, core_threads, nobody_is_left, one_frame, open_cpu, until
from support.run_volumes import SOAK, rounds, seeded, unhurried
from support.server_kinds import HARMLESS, KINDS, NOTE, SLEEP, SPIN, TAKE_FDS, Log, Number, Seconds
from support.time_limits import Measured, until_rest

import vkshare as vks
from vkshare.errors import AbandonedError, RemoteLostError
from vkshare.server import RenderServer
from vkshare.server import messages as m
from vkshare.server.session_state import MOST_OUTPUT
from vkshare.server.wire import HEADER, MAX_MESSAGE, pack

pytest_plugins = ["support.server_fixtures"]

pytestmark = [pytest.mark.no_driver, pytest.mark.slow, unhurried]


# ---- dying and stopping ----------------------------------------------------------------------------------------------


@pytest.mark.rule("R11")
def test_clients_killed_at_random_points_leave_nothing_and_others_go_on(place: Place) -> None:
    rng = seeded()
    server = place.server()
    other = place.client(server, device=place.device())
    surface = other.create_surface(16, 16)
    key = one_frame(other, surface, 0)
    with place.party(server.path, "busy", 1) as warm:  # what is made once and kept
        time.sleep(0.3)
        warm.send_signal(signal.SIGKILL)
    nobody_is_left(server, 1)
    fds, threads, memory = len(open_fds()), threading.active_count() + core_threads(), _resident()
    for n in range(0, rounds(1000, 12), 4):
        with contextlib.ExitStack() as parties:
            children = [parties.enter_context(place.party(server.path, "busy", n + i)) for i in range(4)]
            end = time.monotonic() + rng.random() * 0.3
            while time.monotonic() < end:
                key = one_frame(other, surface, key)
            for child in children:
                child.kill()
                key = one_frame(other, surface, key)
    nobody_is_left(server, 1)
    until(lambda: len(open_fds()) == fds, 30)
    until(lambda: threading.active_count() + core_threads() == threads)
    assert _resident() - memory < 16 << 20
    assert server.statistics().lost == 0


def _resident() -> int:
    """Bytes."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.rule("R10")
def test_the_death_of_a_signaller_ends_a_wait_in_the_server(place: Place) -> None:
    """In order, and soon: the bound of 100 ms is the core's own (rule K9 and X19), and measured where it is quiet."""
    server = place.server()
    waiter = place.raw(server)
    signaller, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = (
        "import socket, sys, time, vkshare as vks\n"
        f"sock = socket.socket(fileno={signaller.fileno()})\n"
        "device = vks.open(backend='cpu')\n"
        "fence = device.create_fence()\n"
        "with fence.export() as d: d.send(sock)\n"
        "time.sleep(100)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], pass_fds=[signaller.fileno()])
    try:
        signaller.close()
        descriptor = vks.FenceDescriptor.recv(receiver, 30)
        waiter.send(m.Op.OPEN_FENCE, m.OpenFence(1, descriptor.to_bytes()), descriptor._unused_fds())
        descriptor.close()
        assert waiter.receive().opcode == m.Op.REPLY
        waiter.send(m.Op.WAIT, m.Wait(1, 5))
        (client,) = server.clients.values()
        until(lambda: client.state._in_flight and client.state.deadline == math.inf)
    finally:
        child.kill()
        child.wait()
        receiver.close()
    assert isinstance(waiter.error(), AbandonedError)


@pytest.mark.rule("R11", "R12")
def test_a_stopped_client_delays_no_other(place: Place) -> None:
    server = place.server()
    with place.party(server.path, "flood", 30) as stopped:
        assert stopped.stdin is not None
        stopped.stdin.write("\n")
        stopped.stdin.flush()
        stopped.send_signal(signal.SIGSTOP)
        other = place.client(server)
        surface = other.create_surface(8, 8)
        for _ in range(50):
            commands = other.record().clear(surface, (0, 0, 0, 1))
            other.submit(commands, acquire={surface: 0}, release={surface: 0})
            other.sync(20)
        stopped.send_signal(signal.SIGCONT)
    nobody_is_left(server, 1)


# ---- not listening, flooding -----------------------------------------------------------------------------------------


@pytest.mark.rule("R12")
def test_a_client_that_reads_nothing_is_cut_off_at_1_mib(place: Place) -> None:
    server = place.server(kinds=KINDS)
    raw = place.raw(server)
    question = raw.packed(m.Op.STATISTICS)
    raw.sock.settimeout(0.01)
    end = time.monotonic() + 30
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while server.statistics().cut_off == 0 and time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                raw.sock.sendall(question)
    assert server.statistics().cut_off == 1
    received = sum(len(message.body) + HEADER.size for message in raw.until_end())
    assert received < 4 * MOST_OUTPUT
    nobody_is_left(server)


@pytest.mark.rule("R12")
def test_a_deaf_client_of_another_process_is_cut_off_and_others_are_answered(place: Place) -> None:
    server = place.server()
    with place.party(server.path, "deaf") as deaf:
        assert deaf.stdout is not None
        other = place.client(server)
        while server.statistics().cut_off == 0:
            other.ping(20)
        assert deaf.stdout.readline() == "cut off\n"


@pytest.mark.rule("R8")
@pytest.mark.serial
def test_flooders_that_draw_share_fairly_and_a_light_client_is_served(place: Place, measured: Measured) -> None:
    server = place.server()

    def unfairness() -> float:
        jain, p99 = _flood(place, server, 8.0 if SOAK else 2.0)
        return max((1 - jain) / 0.05, p99 / 1.0)  # 20 ms where the machine is quiet

    measured(unfairness, 1)


def _flood(place: Place, server: RenderServer, seconds: float) -> tuple[float, float]:
    """Jain's index of what seven flooders got, and how long a light client waited but for 1 % of its requests."""
    waits = []
    with contextlib.ExitStack() as parties:
        flooders = [parties.enter_context(place.party(server.path, "flood", seconds)) for _ in range(7)]
        light = place.client(server)
        for flooder in flooders:
            assert flooder.stdin is not None
            flooder.stdin.write("\n")
            flooder.stdin.flush()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            start = time.monotonic()
            light.ping(20)
            waits.append(time.monotonic() - start)
            time.sleep(0.005)
        counts = [int(flooder.stdout.readline()) for flooder in flooders]  # type: ignore[union-attr]
    jain = sum(counts) ** 2 / (7 * sum(n * n for n in counts))
    waits.sort()
    p99 = waits[len(waits) * 99 // 100]
    print(f"Jain {jain:.4f} of {counts}, light p50 {waits[len(waits) // 2] * 1e3:.2f} p99 {p99 * 1e3:.2f} ms")
    return jain, p99


# ---- lying -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("R13")
@pytest.mark.parametrize(
    "data",
    [
        HEADER.pack(3, 2, 0, 1, 1, 1),
        HEADER.pack(MAX_MESSAGE + 1, 2, 0, 1, 1, 1),
        HEADER.pack(16, 2, 0, 9, 1, 1),
        HEADER.pack(16, 2, 1, 1, 1, 1),
        pack(0x3FFF, 1, 1),
        pack(m.Op.HELLO, 1, 1, m.encode(m.Hello("again"))),
        pack(m.Op.REPLY, 1, 1),
        pack(m.Op.NO_OP, 1, 1, b"x"),
        pack(m.Op.WAIT, 1, 1, b"\xc1"),
    ],
)
def test_a_malformed_message_ends_only_its_client(place: Place, data: bytes) -> None:
    server = place.server()
    liar, other = place.raw(server), place.client(server)
    other.ping()
    liar.write(data)
    (last,) = liar.until_end()
    assert last.opcode == m.Op.LOST
    other.ping()
    assert server.statistics().clients == 1
    assert server.statistics().garbage + server.statistics().cut_off == 1


@pytest.mark.rule("R13")
def test_fds_that_no_request_takes_are_closed(place: Place) -> None:
    server = place.server(kinds=KINDS)
    raw = place.raw(server)
    raw.send(TAKE_FDS, fds=[0, 1])
    message = raw.receive()
    assert len(message.fds) == 2
    message.close()
    before = open_fds()
    bodies: list[tuple[int, m.Body | None]] = [
        (m.Op.OPEN_FENCE, m.OpenFence(1, b"nonsense")),
        (m.Op.OPEN_SURFACE, m.OpenSurface(1, b"")),
    ]
    for opcode, body in bodies:
        raw.send(opcode, body, [0, 1])
        assert isinstance(raw.error(), vks.DescriptorError)
    until(lambda: len(open_fds()) <= len(before))  # a request, also the one before, ends after its answer
    raw.send(m.Op.SYNC, None, [0])
    assert isinstance(raw.error(), RemoteLostError)
    until(lambda: len(open_fds()) < len(before))


@pytest.mark.rule("R13")
def test_a_million_malformed_messages_leave_a_server_that_works(place: Place) -> None:
    rng = seeded()
    log = Log()
    log.gate.set()
    server = place.server(kinds=[*log.kinds(), *HARMLESS])
    other = place.client(server, device=place.device())
    surface = other.create_surface(8, 8)
    key = one_frame(other, surface, 0)
    threads = threading.active_count()
    before = len(open_fds())
    sent = 0
    while sent < rounds(1_000_000, 20_000):
        with Raw(server.path) as raw:
            raw.sock.settimeout(5)
            if rng.random() < 0.9:
                raw.hello()
            with contextlib.suppress(OSError):
                for _ in range(rng.choice([1, 10, 300])):
                    sent += _lie(rng, raw)
        if rng.random() < 0.05:
            key = one_frame(other, surface, key)
    one_frame(other, surface, key)
    nobody_is_left(server, 1)
    until(lambda: threading.active_count() == threads)
    until(lambda: len(open_fds()) == before)
    print(server.statistics())


def _lie(rng: random.Random, raw: Raw) -> int:
    """Some messages: most nearly right."""
    opcode = rng.choice([*m.Op, NOTE, SLEEP, TAKE_FDS, 0x4000 | m.Op.SUBMIT, rng.randrange(1 << 16)])
    bodies = [
        b"",
        rng.randbytes(rng.randrange(30)),
        m.encode(m.CreateSurface(rng.randrange(1, 4), rng.randrange(1, 40), 4, "rgba8unorm", "auto", ("copy",))),
        m.encode(m.Submit((), (m.ClearOp(rng.randrange(1, 4), (0, 0, 0, 1)),), ((1, 1),), ((1, None),), ((2, 0),))),
        m.encode(m.CreateFence(rng.randrange(1, 4), 0)),
        m.encode(m.Wait(1, 1)),
        m.encode(Number(rng.randrange(10))),
        m.encode(Seconds(0.0)),
    ]
    data = bytearray(raw.packed(opcode, rng.choice(bodies), rng.choice([0, 0, 0, 1, 2])))
    if rng.random() < 0.3:
        data[rng.randrange(len(data))] = rng.randrange(256)
    count = rng.choice([1, 1, 5])
    n_fds = data[6] if data[6] < 4 and rng.random() < 0.8 else rng.randrange(3)
    raw.sock.setblocking(False)
    try:
        raw.write(bytes(data) * count, [0] * n_fds)
        raw.sock.recv(1 << 16)
    except BlockingIOError:
        pass
    return count


@pytest.mark.rule("R13", "R11")
def test_a_server_without_free_fds_turns_clients_away_and_comes_back(place: Place) -> None:
    path = place.path()

    def body() -> None:
        server = vks.server.RenderServer(open_cpu, path)
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        first = vks.server.Client(path, timeout=20)
        first.create_fence().close()
        first.ping()
        with no_fd_left(1):  # for the connecting side, which is this process too
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(20)
            sock.connect(os.fspath(path))
            assert sock.recv(1) == b""
            sock.close()
            assert server.statistics().refused == 1
            until_rest(lambda: server.statistics().wakeups, 0.1)  # it does not spin
            first.ping()
            with pytest.raises((OSError, vks.VkshareError)):
                first.create_fence()
        with contextlib.suppress(Exception):
            first.close()
        with vks.server.Client(path, timeout=20) as again:
            again.create_fence()
        server.close()
        serving.join()

    in_child(body)


@pytest.mark.rule("R2")
@pytest.mark.serial
def test_no_ops_are_answered_while_a_worker_runs_python(place: Place) -> None:
    """For the bound of 5 ms the machine has to be quiet: what it was is printed."""
    server = place.server(kinds=KINDS)
    busy = place.raw(server)
    with place.party(server.path, "ping", 0.4) as light:
        busy.send(SPIN, Seconds(0.5))
        assert light.stdin is not None
        assert light.stdout is not None
        light.stdin.write("\n")
        light.stdin.flush()
        count, p50, p99 = map(float, light.stdout.readline().split())
    print(f"{count:.0f} no-ops, p50 {p50 * 1e3:.3f} p99 {p99 * 1e3:.3f} ms")
    assert p99 < 0.25
    assert busy.receive().opcode == m.Op.REPLY
