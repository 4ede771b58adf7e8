"""Many clients' requests through one loop: order, push-back, late errors, fairness, idleness. Rules R1 to R8, R17."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import signal
import socket
import threading
import time
import warnings

import pytest
from support.child_processes import in_child
from support.fd_counts import open_fds
from support.render_servers import Place, open_cpu, rendering_threads, until
from support.run_volumes import SOAK, rounds
from support.server_kinds import GATE, GATE_LATE, NOTE, NOTE_AND_ANSWER, NOTE_INLINE, Log, Number
from support.thread_sleeps import sleeps

import vkshare as vks
from vkshare.errors import InvalidCallError, RemoteLostError
from vkshare.server import messages as m
from vkshare.server import rendering
from vkshare.server.executor import Executor
from vkshare.server.request_types import Answer, Kind, Request
from vkshare.server.session import ServedClient
from vkshare.server.session_state import Route
from vkshare.server.wire import IN_MEMORY

pytest_plugins = ["support.server_fixtures"]

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]

# ---- a thread for each client that renders ---------------------------------------------------------------------------


@pytest.mark.rule("R1")
def test_a_client_has_no_thread_before_it_renders_one_then_and_none_once_it_is_gone(place: Place) -> None:
    server = place.server()
    first, second = place.client(server), place.client(server)
    first.ping()
    second.statistics()
    assert rendering_threads() == 0
    first.create_fence()
    first.create_surface(4, 4)
    assert rendering_threads() == 1
    second.create_fence()
    assert rendering_threads() == 2
    assert server.statistics().workers == 2
    first.close()
    until(lambda: rendering_threads() == 1)
    second.close()
    until(lambda: server.statistics().workers == 0)
    assert rendering_threads() == 0


@pytest.mark.rule("R2", "R7")
def test_while_one_client_renders_another_is_answered(place: Place) -> None:
    log = Log()
    server = place.server(kinds=log.kinds())
    busy, light = place.raw(server), place.client(server)
    busy.send(GATE, Number(1))
    assert log.at_gate.acquire(timeout=20)
    for _ in range(100):
        light.ping(20)
    light.create_fence()
    assert log.numbers == []
    log.gate.set()
    assert busy.receive().opcode == m.Op.REPLY
    assert log.numbers == [1]


# ---- ignored and attended to -----------------------------------------------------------------------------------------


@pytest.mark.rule("R4")
def test_two_requests_in_one_write_and_nothing_more_both_run(place: Place) -> None:
    log = Log()
    raw = place.raw(place.server(kinds=log.kinds()))
    for first in (NOTE_AND_ANSWER, GATE):
        log.gate.set()
        raw.write(raw.packed(first, Number(1)) + raw.packed(NOTE_AND_ANSWER, Number(2)))
        assert [raw.receive().sequence for _ in range(2)] == [raw.sequence - 1, raw.sequence]
    assert log.numbers == [1, 2, 1, 2]


@pytest.mark.rule("R4")
def test_a_client_whose_work_is_out_is_not_read(place: Place) -> None:
    log = Log()
    server = place.server(kinds=log.kinds())
    raw = place.raw(server)
    raw.send(GATE, Number(1))
    assert log.at_gate.acquire(timeout=20)
    raw.sock.setblocking(False)
    sent = 0
    try:
        while sent < 64 << 20:
            sent += raw.sock.send(raw.packed(NOTE, Number(2)) * 100)
    except BlockingIOError:
        pass
    assert sent < 8 << 20  # what the kernel keeps, and no more
    time.sleep(0.1)  # for the loop to read it, if it would
    assert server.statistics().requests <= 2
    log.gate.set()


@pytest.mark.rule("R5")
def test_an_error_carries_its_requests_number_and_nothing_later_has_run_by_then(place: Place) -> None:
    log = Log()
    raw = place.raw(place.server(kinds=log.kinds()))
    raw.write(raw.packed(NOTE_AND_ANSWER, Number(-1)) + raw.packed(GATE, Number(2)))
    error = raw.error()
    seen = [*log.numbers]
    assert (type(error), str(error)) == (InvalidCallError, "-1 is below zero")
    assert error.sequence == raw.sequence - 1  # type: ignore[attr-defined]
    assert seen == [-1]
    log.gate.set()
    assert raw.receive().sequence == raw.sequence
    assert log.numbers == [-1, 2]


@pytest.mark.rule("R5")
def test_finish_runs_on_the_loop_before_the_reply_is_sent(place: Place) -> None:
    threads: list[str] = []

    def run(executor: object, request: object) -> Answer:
        threads.append(threading.current_thread().name)
        return Answer(b"made")

    def finish(client: object, request: object, answer: Answer) -> Answer:
        threads.append(threading.current_thread().name)
        return Answer(answer.body + b", finished")

    kind = Kind(0x200, None, Route.CAN_FAIL, run, finish=finish)
    raw = place.raw(place.server(kinds=[kind]))
    raw.send(0x200)
    assert raw.receive().body == b"made, finished"
    assert threads == ["vks-client-1", "loop"]


@pytest.mark.rule("R4", "R7")
def test_a_sync_is_answered_when_its_submission_ended_before_its_request_was_collected(place: Place) -> None:
    go = threading.Event()

    def watched(executor: Executor, request: Request) -> None:
        assert go.wait(20)
        submission = executor.device.submit()
        submission.wait(20)
        rendering._watch(executor, request, submission)  # reported at once, before this request is complete

    server = place.server(kinds=[Kind(0x200, None, Route.CANNOT_FAIL, watched)])
    raw = place.raw(server)
    raw.send(0x200)
    raw.send(m.Op.SYNC)
    (client,) = server.clients.values()
    until(lambda: len(client.state._in_flight) == 2)
    server.call_soon(lambda: (go.set(), time.sleep(0.3)))  # the loop handles all events after the sync has run
    assert raw.receive().sequence == raw.sequence


@pytest.mark.rule("R6")
def test_64_requests_that_cannot_fail_are_taken_while_the_first_runs_and_the_rest_later(place: Place) -> None:
    log = Log()
    server = place.server(kinds=log.kinds())
    raw = place.raw(server)
    raw.send(GATE_LATE, Number(0))
    assert log.at_gate.acquire(timeout=20)
    raw.write(b"".join(raw.packed(NOTE, Number(n)) for n in range(1, 200)))
    (client,) = server.clients.values()
    until(lambda: len(client.state._in_flight) == 64)
    time.sleep(0.05)
    assert len(client.state._in_flight) == 64
    log.gate.set()
    raw.send(m.Op.NO_OP)
    assert raw.receive().sequence == raw.sequence
    assert log.numbers == list(range(200))


@pytest.mark.rule("R6")
def test_a_late_failure_has_the_original_number_and_what_came_after_has_run(place: Place) -> None:
    log = Log()
    raw = place.raw(place.server(kinds=log.kinds()))
    numbers = [raw.send(NOTE, Number(n)) for n in (1, -2, 3, -4)]
    raw.send(m.Op.NO_OP)
    first, second = raw.error(), raw.error()
    assert [first.sequence, second.sequence] == [numbers[1], numbers[3]]  # type: ignore[attr-defined]
    assert str(second) == "-4 is below zero"
    assert raw.receive().sequence == raw.sequence
    assert log.numbers == [1, -2, 3, -4]


@pytest.mark.rule("R7")
def test_a_clients_replies_are_in_the_order_of_its_requests_on_every_route(place: Place) -> None:
    log = Log()
    raw = place.raw(place.server(kinds=log.kinds()))
    opcodes = [NOTE, NOTE_AND_ANSWER, NOTE_INLINE, NOTE, NOTE, NOTE_INLINE, NOTE_AND_ANSWER]
    count = rounds(70_000, 2800)
    for start in range(0, count, 70):
        raw.write(b"".join(raw.packed(opcodes[n % 7], Number(n)) for n in range(start, start + 70)))
        for _ in range(40):
            raw.receive()
    raw.send(m.Op.NO_OP)
    raw.receive()
    assert log.numbers == list(range(count))
    assert log.threads == {"loop", "vks-client-1"}


@pytest.mark.rule("R13", "R7")
def test_a_body_in_memory_is_read_by_the_worker_in_its_turn(place: Place) -> None:
    log = Log()
    raw = place.raw(place.server(kinds=log.kinds()))
    fd = os.memfd_create("body")
    os.write(fd, m.encode(Number(5)))
    raw.send(NOTE, Number(4))
    raw.send(NOTE_AND_ANSWER | IN_MEMORY, fds=[fd])
    assert raw.receive().sequence == raw.sequence
    assert log.numbers == [4, 5]
    raw.send(NOTE_INLINE | IN_MEMORY, fds=[fd])
    assert isinstance(raw.error(), RemoteLostError)
    os.close(fd)


# ---- fairness --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("R8")
def test_equal_flooders_get_equal_turns_and_a_light_client_has_one_in_between(place: Place) -> None:
    """In turns of the loop, which no other load on the machine changes."""
    counts: dict[int, int] = {}
    turns: list[int] = []

    def count(client: ServedClient, request: object) -> Answer:
        counts[client.number] = counts.get(client.number, 0) + 1
        turns.append(client.number)
        return Answer()

    server = vks.server.RenderServer(open_cpu, place.path(), kinds=[Kind(0x200, None, Route.INLINE, count)])
    try:
        connections = []
        for _ in range(8):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.connect(os.fspath(server.path))
            connections.append(sock)
            sock.sendall(_hello())
        for _ in range(10):
            server.serve_once(0.0)
        *flooders, light = connections
        for sock in flooders:
            sock.setblocking(False)
            _fill(sock)
        for turn in range(100):
            if turn == 50:
                light.sendall(_request())
            server.serve_once(0.0)
            for sock in flooders:
                _fill(sock)
                _drain(sock)
        light.settimeout(10)
        assert light.recv(4096)
    finally:
        server.close()
        for sock in connections:
            sock.close()
    shares = [counts[n] for n in range(1, 8)]
    assert sum(shares) ** 2 / (7 * sum(n * n for n in shares)) >= 0.95  # Jain's index
    assert min(shares) > 500
    assert max(len(list(run)) for _, run in itertools.groupby(turns)) <= 16  # of one client, before the next
    assert turns.index(8) < len(turns) * 0.6  # it had its answer soon after it had asked


def _hello() -> bytes:
    from vkshare.server.session_state import NO_GENERATION
    from vkshare.server.wire import pack

    return pack(m.Op.HELLO, 0, NO_GENERATION, m.encode(m.Hello("")))


def _request() -> bytes:
    from vkshare.server.wire import pack

    return pack(0x200, 1, 1)


def _fill(sock: socket.socket) -> None:
    try:
        sock.send(_request() * 64)
    except BlockingIOError:
        pass


def _drain(sock: socket.socket) -> None:
    try:
        while sock.recv(1 << 16):
            pass
    except BlockingIOError:
        pass


# ---- idle ------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("R17")
def test_32_idle_clients_cause_no_wakeup(place: Place) -> None:
    path = place.path()
    with place.party(path, "serve") as server, contextlib.ExitStack() as connected:
        clients = [connected.enter_context(vks.server.Client(path, timeout=30)) for _ in range(32)]
        for client in clients[::2]:
            client.create_fence()
        for client in clients:
            client.ping()
        time.sleep(0.3)
        before = sleeps(server.pid)
        assert len(before) >= 17  # the loop, and a thread for each client that renders
        time.sleep(5.0 if SOAK else 1.5)
        assert sleeps(server.pid) == before


# ---- the server itself -----------------------------------------------------------------------------------------------


def test_a_server_ends_with_everything_that_it_had(place: Place) -> None:
    before = open_fds()
    threads = threading.active_count()
    server = vks.server.RenderServer(open_cpu, place.path())
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    client = vks.server.Client(server.path)
    surface = client.create_surface(8, 8)
    server.close()
    server.close()
    serving.join(20)
    assert server.is_closed
    assert "closed" in repr(server)
    assert not server.path.exists()
    with pytest.raises(RemoteLostError, match="the server is closed"):
        client.ping()
    surface.close()
    client.close()
    assert open_fds() == before
    until(lambda: threading.active_count() == threads)


def test_a_handler_of_a_signal_ends_it(place: Place) -> None:
    """In a process of its own: signals are the main thread's."""
    path = place.path()

    def body() -> None:
        server = vks.server.RenderServer(open_cpu, path)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            server.serve_forever()
        server.close()

    in_child(body)


def test_a_server_that_was_lost_warns_and_gives_its_path_back(place: Place) -> None:
    path = place.path()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vks.server.RenderServer(open_cpu, path)
        gc.collect()
    assert any("unclosed <vkshare.RenderServer at" in str(warning.message) for warning in caught)
    assert not path.exists()


def test_a_device_that_was_given_stays_open(place: Place) -> None:
    device = place.device()
    with vks.server.RenderServer(device, place.path()):
        pass
    device._check()
    with pytest.raises(TypeError, match="device must be a Device"):
        vks.server.RenderServer("cpu", place.path())  # type: ignore[arg-type]


def test_a_call_from_another_thread_runs_on_the_loops(place: Place) -> None:
    server = place.server()
    seen: list[str] = []
    server.call_soon(lambda: seen.append(threading.current_thread().name))
    until(lambda: seen == ["loop"])


def test_a_server_cannot_be_served_twice_nor_closed_by_the_thread_that_serves(place: Place) -> None:
    server = place.server()
    until(lambda: server._served_by)
    with pytest.raises(InvalidCallError, match="another thread serves"):
        server.serve_forever()
    raised: list[BaseException] = []

    def close() -> None:
        try:
            server.close()
        except InvalidCallError as error:
            raised.append(error)

    server.call_soon(close)
    until(lambda: raised)
