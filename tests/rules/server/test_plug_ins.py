"""Plug-ins of the server: kinds of their own, clients' queues, events. A compositor's place."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.fd_counts import open_fds
from support.render_servers import Place, open_cpu, until
from support.server_kinds import KINDS, Number

import vkshare as vks
from vkshare.server import messages as m
from vkshare.server.executor import RequestResult
from vkshare.server.request_types import LATER, Answer, Kind
from vkshare.server.session import ServedClient
from vkshare.server.session_state import Route

pytest_plugins = ["support.server_fixtures"]

pytestmark = pytest.mark.no_driver


class Offered(m.Body):
    """A descriptor, whose fds come beside it."""

    descriptor: m.Fields


def test_plug_ins_have_opcodes_of_their_own(place: Place) -> None:
    for opcode in (m.Op.SUBMIT, 0x4000, 0x8000):
        with pytest.raises(ValueError, match="plug-ins have 0x100 to 0x3fff"):
            vks.server.RenderServer(open_cpu, place.path(), kinds=[Kind(opcode, None, Route.INLINE, lambda *_: None)])
    with pytest.raises(ValueError, match="taken twice"):
        vks.server.RenderServer(open_cpu, place.path(), kinds=[KINDS[0], KINDS[0]])


def test_a_plug_in_is_notified_of_a_clients_end_and_can_send_it_events(place: Place) -> None:
    gone: list[int] = []

    def enter(client: ServedClient, request: object) -> Answer:
        client.notes["desktop"] = 5
        client.on_close(lambda it: gone.append(it.number))
        read, write = os.pipe()
        os.close(write)
        client.tell(0x300, Number(12), [read])
        return Answer()

    server = place.server(kinds=[Kind(0x200, None, Route.INLINE, enter)])
    client = place.client(server)
    before = open_fds()
    client.call(0x200)
    ((opcode, body, fds),) = client.events()
    assert (opcode, m.decode(Number, body)) == (0x300, Number(12))
    assert open_fds() == before | set(fds)
    os.close(fds[0])
    assert client.events() == []
    client.close()
    until(lambda: gone == [1])


@pytest.mark.rule("R12")
def test_events_for_a_client_that_does_not_read_arrive_once_it_reads(place: Place) -> None:
    """Nothing else happens to the client, whose requests would have the loop look at it."""
    server = place.server()
    raw = place.raw(server)
    (client,) = server.clients.values()
    reported: list[int] = []

    def tell() -> None:
        while not client._unsent:
            client.tell(0x300, m.Counters({"x" * 2000: len(reported)}))
            reported.append(len(reported))

    on_the_loop(server, tell)
    raw.sock.settimeout(5)
    assert [raw.receive().opcode for _ in reported] == [m.Op.EVENT] * len(reported)


@pytest.mark.rule("R12")
def test_a_no_op_is_not_answered_in_the_middle_of_an_event(place: Place) -> None:
    server = place.server()
    raw = place.raw(server)
    (client,) = server.clients.values()
    on_the_loop(server, lambda: client.tell(0x300, m.Counters({"x" * 600_000: 1})))
    raw.sock.settimeout(5)
    begun = raw.sock.recv(100_000)
    raw.send(m.Op.NO_OP)
    raw._messages += raw._splitter.feed(begun)
    assert [raw.receive().opcode, raw.receive().opcode] == [m.Op.EVENT, m.Op.REPLY]


def on_the_loop(server: vks.server.RenderServer, call: Callable[[], object]) -> None:
    """The server's loop calls it, and nothing of a client's happens in that turn."""
    is_over = threading.Event()

    def both() -> None:
        call()
        is_over.set()

    server.call_soon(both)
    assert is_over.wait(20)


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_plug_in_can_read_a_clients_queue(place: Place, isolation: str) -> None:
    """The loop checks the descriptor and passes it on; the compositor opens it on a device and a thread of its own."""
    offered: list[vks.QueueDescriptor] = []

    def offer(client: ServedClient, request: Any) -> Answer:
        descriptor = vks.QueueDescriptor.from_bytes(request.body.descriptor, request.take_fds())
        client.on_close(lambda it: descriptor.close())
        offered.append(descriptor)
        return Answer()

    before = open_fds()
    ours, theirs = open_cpu(), open_cpu()
    server = place.server(isolation=isolation, kinds=[Kind(0x200, Offered, Route.INLINE, offer, most_fds=253)])
    client = place.client(server)
    sender, exported = vks.pipe(theirs, 16, 8, metadata_size=8)
    with exported:
        client.call(0x200, Offered(exported.to_bytes()), exported._unused_fds())
    with sender.frame(b"first") as frame:
        theirs.submit(theirs.record().clear(frame.surface, (0, 1, 0, 1)))
    with vks.open_receiver(ours, offered[0]) as receiver, receiver.frame(20) as (surface, metadata):
        assert (bytes(metadata[:5]), surface.read()[0, 0].tolist()) == (b"first", [0, 255, 0, 255])
    sender.close()
    client.close()
    until(lambda: offered[0].is_closed)
    server.close()
    for device in (ours, theirs):
        device.close()
    del frame, surface, sender, receiver, client
    assert open_fds() == before


@pytest.mark.rule("R13")
def test_a_descriptor_that_is_wrong_is_the_clients_error_and_no_fd_stays_open(place: Place) -> None:
    def offer(client: object, request: Any) -> Answer:
        vks.QueueDescriptor.from_bytes(request.body.descriptor, request.take_fds()).close()
        return Answer()

    client = place.client(place.server(kinds=[Kind(0x200, Offered, Route.INLINE, offer, most_fds=253)]))
    client.ping()
    before = open_fds()
    with pytest.raises(vks.DescriptorError):
        client.call(0x200, Offered(b"nonsense"), [0, 1, 2])
    assert open_fds() == before


def test_an_answer_may_come_when_something_else_has_happened(place: Place) -> None:
    """And no thread waits for it meanwhile."""
    device = place.device()
    fence = device.create_fence()

    def begin(executor: Any, request: Any) -> Any:
        def then(error: BaseException | None) -> list[RequestResult]:
            return [RequestResult(request, Answer(threading.current_thread().name.encode()))]

        executor.ask(lambda event_queue, token: fence._notify(3, event_queue, token), then)
        return LATER

    raw = place.raw(place.server(kinds=[Kind(0x200, None, Route.CAN_FAIL, begin)], patience=0.2))
    raw.send(0x200)
    raw.sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        raw.receive()
    fence.signal(3)
    raw.sock.settimeout(20)
    assert raw.receive().body == b"loop"


def test_an_error_of_a_plug_in_is_its_clients_alone(place: Place) -> None:
    def fail(on: object, request: object) -> Answer:
        raise ZeroDivisionError("a mistake")

    kinds = [Kind(0x200, None, Route.INLINE, fail), Kind(0x201, None, Route.CAN_FAIL, fail)]
    kinds.append(Kind(0x202, None, Route.CAN_FAIL, lambda *_: Answer(), finish=lambda *_: fail(None, None)))
    client = place.client(place.server(kinds=kinds))
    for opcode in (0x200, 0x201, 0x202):
        with pytest.raises(vks.VkshareError, match="ZeroDivisionError: a mistake"):
            client.call(opcode)
    client.ping()
