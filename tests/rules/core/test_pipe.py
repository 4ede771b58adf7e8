"""vks.pipe: frames one way, three lines at each end (rule Q26)."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest
from support import access_patterns, queue_ends
from support.ctrl_c import CtrlC, at_any_place
from support.fd_counts import open_fds
from support.peer_processes import Peer, later
from support.queue_ends import look, send_at_last
from support.run_volumes import rounds, unhurried
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.errors import AbandonedError, AcquireTimeout, ClosedError, InvalidCallError
from vkshare.util import closing, deadline

pytest_plugins = ["support.peer_processes"]
pytestmark = [
    pytest.mark.driver_dependent,
    pytest.mark.wheel,
    unhurried,
    pytest.mark.rule("Q26"),
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]

Open = Callable[..., vks.Device]
Peers = Callable[..., Peer]


def joined(sender_device: Any, receiver_device: Any, **options: Any) -> tuple[Any, Any]:
    sender, descriptor = vks.pipe(sender_device, 16, 12, metadata_size=16, **options)
    with descriptor:
        return sender, vks.open_receiver(receiver_device, descriptor)


def send(sender: Any, number: int, metadata: bytes = b"") -> None:
    with sender.frame(metadata, 30) as frame:
        access_patterns.clear(frame.surface, number)


def test_frames_come_in_order_with_their_metadata(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open())
    frames = rounds(10_000, 100)

    def work() -> None:
        for number in range(frames):
            send(sender, number, b"%d" % number)
        sender.close()

    works = later(work)
    count = 0
    for surface, metadata in receiver:
        assert metadata == b"%d" % count
        assert look(surface, count)
        count += 1
    assert count == frames
    works.result(10)
    with pytest.raises(ClosedError):
        receiver.frame().__enter__()
    receiver.close()


def test_another_process_receives(vks_open: Open, peers: Peers) -> None:
    peer = peers()
    sender, descriptor = vks.pipe(vks_open(), 16, 12, metadata_size=16)
    with descriptor:
        receiver = peer.run(queue_ends.open_receiver, peer.device, descriptor)
    receives = peer.later(receive_all, receiver)
    for number in range(rounds(10_000, 60)):
        send(sender, number, b"%d" % number)
    sender.close()
    assert receives.result(60) == rounds(10_000, 60)


def receive_all(receiver: Any) -> int:
    count = 0
    for surface, metadata in receiver:
        if metadata == b"%d" % count and look(surface, count):
            count += 1
    return count


def test_frames_can_be_sent_before_there_is_a_receiver(vks_open: Open) -> None:
    sender, descriptor = vks.pipe(vks_open(), 16, 12, count=2)
    send(sender, 1)
    send(sender, 2)
    with pytest.raises(AcquireTimeout, match=r"no surface came back within 0\.05 s: no receiver has the pipe open"):
        sender.frame(timeout=0.05).__enter__()
    with descriptor:
        receiver = vks.open_receiver(vks_open(), descriptor)
    for number in (1, 2):
        with receiver.frame(0) as frame:
            assert look(frame.surface, number)
    send(sender, 3)


def test_a_body_that_raises_sends_nothing_and_keeps_the_surface(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open())
    kept = None
    try:
        with sender.frame(b"no") as frame:
            kept = frame.surface
            raise RuntimeError("body")
    except RuntimeError:
        pass
    with pytest.raises(AcquireTimeout):
        receiver.frame(0).__enter__()
    with sender.frame(b"yes") as frame:
        assert frame.surface is kept
        access_patterns.clear(kept, 8)
    with receiver.frame(5) as (surface, metadata):
        assert metadata == b"yes"
        assert look(surface, 8)


def test_the_metadata_may_be_set_in_the_body_and_must_fit(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open())
    with sender.frame() as frame:
        sender.device.submit(sender.device.record().clear(frame.view, (0, 0, 0, 1)))
        frame.metadata = b"late"
    with receiver.frame(5) as frame:
        assert frame.metadata == b"late"
    with pytest.raises(ValueError, match="metadata_size"), sender.frame(b"x" * 17):
        pass
    for number in range(5):  # nothing is lost by that
        send(sender, number)
        with receiver.frame(5) as (surface, _):
            assert look(surface, number)


def test_the_sender_waits_for_a_free_surface(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open())
    for number in range(3):
        send(sender, number)
    sends = later(send, sender, 3)
    assert not sends.done(0.05)
    with receiver.frame(5) as (surface, _):
        assert look(surface, 0)
        assert not sends.done(0.05)  # the receiver has it still
    sends.result(10)


def test_the_newest_frame_and_the_others_go_back(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open())
    for number in range(3):
        send(sender, number, b"%d" % number)
    with receiver.frame(latest=True) as (surface, metadata):
        assert metadata == b"2"
        assert look(surface, 2)
        for number in (3, 4):
            send(sender, number)
    with receiver.frame(5) as (surface, _):
        assert look(surface, 3)


@pytest.mark.rule("Q21")
def test_nobody_waits_on_the_cpu_for_the_gpu(vks_open: Open) -> None:
    maker, viewer = vks_open(), vks_open()
    sender, receiver = joined(maker, viewer)
    gate = maker.create_fence()
    with sender.frame() as frame:
        access_patterns.clear(frame.surface, 9, waits=(gate, 1))  # the GPU is far from it
    with receiver.frame(5) as (surface, _):
        submission = access_patterns.fill_column(surface, 2, 90)
        assert not submission.is_done()
    gate.signal(1)
    submission.wait(10)


def test_a_receiver_that_is_killed_is_told_and_another_goes_on_with_what_was_sent(vks_open: Open, peers: Peers) -> None:
    sender, descriptor = vks.pipe(vks_open(), 16, 12, metadata_size=16)
    with descriptor:
        for turn in range(3):
            peer = peers(validation=False)
            receiver = peer.run(queue_ends.open_receiver, peer.device, descriptor)
            with pytest.raises(InvalidCallError, match="open already"):
                vks.open_receiver(sender.device, descriptor)
            for number in range(3):
                send(sender, 10 * turn + number, b"%d" % number)
            peer.later(take_and_sleep, receiver)
            wait_until(lambda: sender.statistics().dequeued == sender.statistics().enqueued - 1)
            peer.kill()
            with pytest.raises(ClosedError):
                sender.frame(timeout=10).__enter__()
            peer.end()
            last = vks.open_receiver(sender.device, descriptor)  # has what was sent and not taken
            with last.frame(5) as (surface, metadata):
                assert metadata == b"2"
                assert look(surface, 10 * turn + 2)
            last.close()


def take_and_sleep(receiver: Any) -> None:
    with receiver.frame(5), receiver.frame(5):
        threading.Event().wait()


ENDS = ["close", "device closed", "device lost", "killed"]


@pytest.mark.rule("Q27")
@pytest.mark.parametrize("way", ENDS)
def test_receivers_that_end_with_a_frame_in_hand_starve_no_sender(vks_open: Open, peers: Peers, way: str) -> None:
    """More of them than there are surfaces, here and in other processes."""
    sender, descriptor = vks.pipe(vks_open(), 16, 12, metadata_size=16)
    kept = vks_open(), vks_open()  # two devices that receive in turn, and live on
    with descriptor:
        for turn in range(8):
            here = turn % 2 == 0 and way != "killed"
            peer = None if here else peers(validation=False)
            device = peer.device if peer else vks_open() if way.startswith("device") else kept[turn // 2 % 2]
            if peer is None:
                receiver = vks.open_receiver(device, descriptor)
                send_at_last(sender, turn)
                take_and_end(receiver, way)
                continue
            receiver = peer.run(queue_ends.open_receiver, device, descriptor)
            send_at_last(sender, turn)
            peer.run(take_and_end, receiver, way)
            if way == "killed":
                peer.kill()
            peer.end()
        last = vks.open_receiver(kept[0], descriptor)
        send_at_last(sender, 99)
        with last.frame(10) as (surface, metadata):
            assert metadata == b"99"
            assert look(surface, 99)


def take_and_end(receiver: Any, way: str) -> None:
    """Where the receiver lives."""
    frame = receiver.frame(10)
    frame.__enter__()
    if way == "close":
        receiver.close()
        assert not any(surface.is_owned for surface in receiver._in.surfaces)
        frame.__exit__(None, None, None)  # it was given back already
    elif way == "device closed":
        receiver.device.close()
    elif way == "device lost":
        receiver.device._mark_lost()
        receiver.close()


@pytest.mark.rule("Q27")
@pytest.mark.parametrize("way", ["device closed", "device lost", "killed"])
@pytest.mark.parametrize("is_drawn_before", [True, False], ids=["after drawing", "before drawing"])
def test_a_receiver_that_ends_with_work_on_what_it_gave_back_costs_the_sender_one_frame(
    vks_open: Open, peers: Peers, way: str, is_drawn_before: bool
) -> None:
    sender, descriptor = vks.pipe(vks_open(), 16, 12, metadata_size=16, count=1)
    there = peers(validation=False) if way == "killed" else None
    device = there.device if there else vks_open()
    receiver = (
        there.run(queue_ends.open_receiver, device, descriptor) if there else vks.open_receiver(device, descriptor)
    )
    send(sender, 1)
    (there.run if there else lambda function, *given: function(*given))(give_back_under_work, receiver)

    def end() -> None:
        if there:
            there.kill()
            there.end()
        elif way == "device closed":
            device.close()
        else:
            device._mark_lost()
            receiver.close()

    def frame() -> None:
        with sender.frame(b"2", 10) as frame:
            for step in (lambda: access_patterns.clear(frame.surface, 2), end)[:: 1 if is_drawn_before else -1]:
                step()

    with pytest.raises((AbandonedError, ClosedError)):
        frame()
    with descriptor:
        again = vks.open_receiver(vks_open(), descriptor)
    for number in range(3, 6):
        send_at_last(sender, number)
        pixels, metadata = taken(again)
        assert metadata == b"%d" % number
        assert access_patterns.is_clear(pixels, number)


_gates: list[Any] = []  # of this process


def give_back_under_work(receiver: Any) -> None:
    """A surface whose work waits for what never comes."""
    _gates.append(receiver.device.create_fence())
    with receiver.frame(10) as (surface, _):
        access_patterns.clear(surface, 7, waits=(_gates[-1], 1))


def taken(receiver: Any) -> tuple[Any, bytes]:
    """The next frame; the notice that an earlier receiver died with its surface comes once."""
    try:
        with receiver.frame(10) as (surface, metadata):
            return surface.read(10), metadata
    except AbandonedError:
        with receiver.frame(10) as (surface, metadata):
            return surface.read(10), metadata


@pytest.mark.rule("Q27")
def test_a_frame_that_is_not_over_when_its_receiver_is_closed_goes_back_once(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open(), count=2)
    send(sender, 1)
    send(sender, 2)
    with receiver.frame(5) as (surface, _):
        receiver.close()
        assert not surface.is_owned
        with pytest.raises(ClosedError):
            surface.read()
    assert sender._free.statistics().enqueued == 2 + 1
    with pytest.raises(ClosedError), sender.frame(timeout=5):
        pass


@pytest.mark.rule("Q26")
@at_any_place
def test_a_pipe_goes_on_after_ctrl_c_at_any_place(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open(), count=2)

    def to_and_fro() -> None:
        with sender.frame(timeout=10):
            pass
        with receiver.frame(10):
            pass

    with CtrlC(0) as counted:
        to_and_fro()
    assert counted.places > 20
    for place in range(1, counted.places + 1):
        with contextlib.suppress(KeyboardInterrupt), CtrlC(place):
            to_and_fro()
        while True:  # what was sent and not received before
            try:
                with receiver.frame(0):
                    pass
            except AcquireTimeout:
                break
        to_and_fro()


@pytest.mark.rule("Q26")
@at_any_place
def test_a_close_that_ctrl_c_ended_is_gone_on_with_by_the_next_call(vks_open: Open) -> None:
    devices = vks_open(), vks_open()

    def close_at(place: int) -> CtrlC:
        ends = joined(*devices, count=2)
        with contextlib.suppress(KeyboardInterrupt), CtrlC(place) as ctrl_c:
            for end in ends:
                end.close()
        for end in ends:
            end.close()
        return ctrl_c

    places = close_at(0).places
    before = _queue_pages()
    for place in range(1, places + 1, rounds(1, 11, full=1)):
        close_at(place)
        assert _queue_pages() <= before, f"place {place} of {places}"


def _queue_pages() -> int:
    """Fds of queues. (The memory of a surface whose end was interrupted is freed with its device.)"""
    found = 0
    for fd in open_fds():
        with contextlib.suppress(OSError):
            found += "vkshare:queue" in os.readlink(f"/proc/self/fd/{fd}")
    return found


@pytest.mark.rule("Q27")
def test_the_handles_of_a_receivers_device_end_with_the_receiver(vks_open: Open) -> None:
    sender, descriptor = vks.pipe(vks_open(), 16, 12, metadata_size=16)
    devices = vks_open(), vks_open()
    with descriptor:
        for turn in range(6):
            receiver = vks.open_receiver(devices[turn % 2], descriptor)
            surfaces = receiver._in.surfaces
            send_at_last(sender, turn)
            with receiver.frame(5):
                pass
            receiver.close()
            assert all(surface.is_closed for surface in surfaces)
            assert len(sender._queues[0]._network._handles) == 1
    assert not any(surface.is_closed for surface in sender._free.surfaces)


@pytest.fixture
def bereft(vks_open: Open) -> Any:
    """A pipe of three surfaces: its sender, and its descriptor, after a receiver's device ended with all of them."""
    sender, descriptor = vks.pipe(vks_open(), 16, 12, metadata_size=16)
    receiver = vks.open_receiver(vks_open(), descriptor)
    for number in range(3):
        send(sender, number)
        receiver._in.dequeue(5)
    receiver.device.close()
    with descriptor:
        yield sender, descriptor


def check_that_no_surface_is_lost(sender: Any, receiver: Any) -> None:
    for number in range(3):
        send_at_last(sender, number)
    assert receiver.statistics().committed - receiver.statistics().dequeued == 3


def interrupted_at_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the wait for the work on a surface that is recovered."""
    recover, calls = vks.Surface.recover, itertools.count(1)

    def interrupted(surface: vks.Surface, timeout: float | None = None) -> None:
        if next(calls) == 2:
            raise KeyboardInterrupt
        recover(surface, timeout)

    monkeypatch.setattr(vks.Surface, "recover", interrupted)


@pytest.mark.rule("Q27")
def test_a_sender_that_is_interrupted_while_it_recovers_loses_no_surface(
    bereft: Any, vks_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, descriptor = bereft
    interrupted_at_the_second(monkeypatch)
    with pytest.raises(KeyboardInterrupt), sender.frame(timeout=5):
        pass
    receiver = vks.open_receiver(vks_open(), descriptor)
    check_that_no_surface_is_lost(sender, receiver)


@pytest.mark.rule("Q27")
def test_a_receiver_that_is_interrupted_while_it_recovers_loses_no_surface(
    bereft: Any, vks_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, descriptor = bereft
    interrupted_at_the_second(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        vks.open_receiver(vks_open(), descriptor)
    receiver = vks.open_receiver(vks_open(), descriptor)
    check_that_no_surface_is_lost(sender, receiver)


def test_a_frames_timeout_is_for_all_surfaces_that_are_recovered_together(
    bereft: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, _ = bereft
    now, waits = [0.0], list[float]()

    def late(surface: vks.Surface, timeout: float) -> None:
        waits.append(timeout)
        now[0] += timeout
        raise TimeoutError

    monkeypatch.setattr(vks.Surface, "recover", late)
    monkeypatch.setattr(deadline, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    with pytest.raises(ClosedError), sender.frame(timeout=3):
        pass
    assert waits == [3, 0, 0]


@pytest.mark.rule("Q27")
def test_the_surfaces_of_a_receiver_that_is_closed_share_one_wait_for_what_was_promised(
    vks_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that closes clients' pipes would wait half a second for each, one client after the other."""
    _, receiver = joined(vks_open(), vks_open())
    now, waits = [0.0], list[float]()

    def wait(surface: vks.Surface, timeout: float) -> None:
        waits.append(timeout)
        now[0] += timeout

    with monkeypatch.context() as waiting:
        waiting.setattr(vks.Surface, "_finish_releases", wait)
        waiting.setattr(closing, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
        receiver.close()
    assert waits == [closing.RELEASE_GRACE, 0, 0]


def test_a_sender_that_is_killed_ends_the_pipe(vks_open: Open, peers: Peers) -> None:
    peer = peers(validation=False)
    sender, descriptor = peer.run(make_pipe, peer.device)
    with descriptor:
        receiver = vks.open_receiver(vks_open(), descriptor)
    peer.later(send_and_die, sender)
    seen = []
    try:
        while True:
            with receiver.frame(10) as (surface, metadata):
                seen.append((metadata, look(surface, int(metadata))))
                if len(seen) == 2:
                    peer.kill()
    except (ClosedError, AbandonedError):
        pass
    assert seen[:2] == [(b"0", True), (b"1", True)]


def make_pipe(device: Any) -> Any:
    return vks.pipe(device, 16, 12, metadata_size=16)


def send_and_die(sender: Any) -> None:
    send(sender, 0, b"0")
    send(sender, 1, b"1")
    with sender.frame():
        threading.Event().wait()


def test_a_queues_descriptor_is_no_pipes(vks_open: Open) -> None:
    device = vks_open()
    with vks.SurfaceQueue(device, 8, 8) as queue, queue.export() as descriptor:
        with pytest.raises(InvalidCallError, match=r"SurfaceQueue\.open"):
            vks.open_receiver(device, descriptor)
        with pytest.raises(TypeError, match="QueueDescriptor"):
            vks.open_receiver(device, queue)  # type: ignore[arg-type]


def test_both_ends_say_what_they_are_and_end(vks_open: Open) -> None:
    sender, receiver = joined(vks_open(), vks_open())
    send(sender, 1)
    assert repr(sender) == "<vkshare.Sender of 3 surfaces, 1 on the way>"
    assert repr(receiver) == "<vkshare.Receiver of 3 surfaces, 1 on the way>"
    receiver.close()
    receiver.close()
    with pytest.raises(ClosedError), sender.frame(timeout=5):
        pass
    sender.close()
    assert repr(sender) == "<vkshare.Sender closed>"
    with pytest.raises(ClosedError), sender.frame():
        pass
