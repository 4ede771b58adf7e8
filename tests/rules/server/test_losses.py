"""Workers that hang, results of clients that are gone, and a device that is lost. Rules R10, R14 to R16."""

from __future__ import annotations

import pytest
from support.fd_counts import open_fds
from support.render_servers import Place, nobody_is_left, one_frame, open_cpu, rendering_threads, until
from support.server_kinds import GATE, GATE_LATE, KINDS, SLEEP, Log, Number, Seconds

import vkshare as vks
from vkshare.errors import AbandonedError, DeviceLostError, InvalidCallError, RemoteLostError
from vkshare.server import messages as m

pytest_plugins = ["support.server_fixtures"]

pytestmark = pytest.mark.no_driver

# ---- hanging ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("R15")
def test_a_hung_worker_loses_its_client_and_the_others_go_on(place: Place) -> None:
    log = Log()
    server = place.server(kinds=log.kinds(), patience=1.0)
    hung, other = place.raw(server), place.client(server)
    hung.send(GATE, Number(1))
    assert log.at_gate.acquire(timeout=20)
    other.create_fence()
    last = hung.error()
    assert isinstance(last, RemoteLostError)
    assert "request 2 has blocked its worker for 1 s" in str(last)
    with pytest.raises(EOFError):
        hung.receive()
    other.ping()
    assert server.statistics().lost == 1
    assert server.statistics().workers == 2
    log.gate.set()
    nobody_is_left(server, 1)


@pytest.mark.rule("R15")
def test_the_patience_is_2_s(place: Place) -> None:
    assert place.server().patience == 2.0


@pytest.mark.rule("R15", "R10")
def test_fences_of_a_hung_client_are_abandoned_though_its_thread_still_exists(place: Place) -> None:
    log = Log()
    server = place.server(kinds=log.kinds(), patience=1.0)
    hung, waiter = place.client(server), place.client(server)
    fence = hung.create_fence()
    assert fence.descriptor is not None
    follower = waiter.open_fence(fence.descriptor)
    hung.send(GATE_LATE, Number(1))
    with pytest.raises(AbandonedError):
        follower.wait(1, 20)
    assert rendering_threads() == 2
    log.gate.set()


@pytest.mark.rule("R14")
def test_the_result_of_a_client_that_is_gone_is_dropped(place: Place) -> None:
    log = Log()
    server = place.server(kinds=[*log.kinds(), *KINDS])
    before = open_fds()
    gone = place.raw(server)
    gone.send(GATE, Number(1))
    assert log.at_gate.acquire(timeout=20)
    gone.sock.close()
    until(lambda: server.statistics().clients == 0)
    heir = place.raw(server)  # with the same file descriptor in the server
    heir.send(SLEEP, Seconds(0.0))
    assert heir.receive().sequence == heir.sequence
    log.gate.set()
    nobody_is_left(server, 1)
    assert server.statistics().dropped >= 1
    heir.send(m.Op.NO_OP)
    assert heir.receive().sequence == heir.sequence
    heir.sock.close()
    nobody_is_left(server)
    assert open_fds() == before


# ---- a lost device ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("R16")
def test_a_lost_device_is_reported_to_every_client_and_all_continue_without_a_restart(place: Place) -> None:
    devices: list[vks.Device] = []

    def factory() -> vks.Device:
        devices.append(open_cpu())
        return devices[-1]

    server = place.server(factory)
    clients = [place.client(server, device=place.device()) for _ in range(3)]
    surfaces = [client.create_surface(8, 8) for client in clients]
    devices[0]._mark_lost()
    with pytest.raises(DeviceLostError, match="its next one is generation 2"):
        clients[0].create_fence()
    for client in clients[1:]:
        with pytest.raises(DeviceLostError, match="its next one is generation 2"):
            client.ping()
    assert [client.generation for client in clients] == [2, 2, 2]
    for client, old in zip(clients, surfaces, strict=True):
        surface = client.create_surface(8, 8)
        one_frame(client, surface, 0)
        old.close()
        with pytest.raises(InvalidCallError, match=f"no surface {old.id}"):
            client.sync()
        client.ping()
    assert len(devices) == 2
    until(lambda: devices[0].is_closed)
    assert server.statistics().device_generation == 2
    assert place.client(server).generation == 2


@pytest.mark.rule("R16")
def test_a_submission_to_a_lost_device_fails_late_and_does_not_block_later_requests(place: Place) -> None:
    devices: list[vks.Device] = []
    tries = iter([True, False, True])

    def factory() -> vks.Device:
        if not next(tries):
            raise OSError("not yet")
        devices.append(open_cpu())
        return devices[-1]

    server = place.server(factory)
    raw = place.raw(server)
    raw.send(m.Op.CREATE_FENCE, m.CreateFence(1, 0))
    raw.receive().close()
    devices[0]._mark_lost()
    first = raw.send(m.Op.SUBMIT, m.Submit((), (), (), ((1, None),), ()))
    error = raw.error()
    assert (type(error), error.sequence) == (DeviceLostError, first)  # type: ignore[attr-defined]
    second = raw.send(m.Op.SYNC)
    third = raw.send(m.Op.SUBMIT, m.Submit((), (), (), ((1, None),), ()))
    for sequence in (second, third):
        error = raw.error()
        assert (type(error), error.sequence) == (DeviceLostError, sequence)  # type: ignore[attr-defined]
    raw.generation = 2
    raw.send(m.Op.CREATE_FENCE, m.CreateFence(1, 0))  # waits for the device
    assert raw.receive().opcode == m.Op.REPLY


@pytest.mark.rule("R16")
def test_a_given_device_that_is_lost_has_no_successor_and_every_request_says_so(place: Place) -> None:
    device = place.device()
    server = place.server(device)
    client = place.client(server)
    device._mark_lost()
    for _ in range(3):
        with pytest.raises(DeviceLostError):
            client.create_fence()
    client.ping()
