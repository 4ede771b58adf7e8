"""Feeds: the newest frame whose work has run, and never a wait for a client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from support.render_servers import until

import vkshare as vks
from vkshare.compositor import frame_sources
from vkshare.compositor.frame_sources import Keys
from vkshare.errors import AcquireTimeout, InvalidCallError, UnsupportedError

Open = Callable[..., vks.Device]
RED, GREEN, BLUE = (1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1)


@pytest.fixture
def client(vks_open: Open) -> vks.Device:
    return vks_open(name="client")


@pytest.fixture
def pipe(device: vks.Device, client: vks.Device) -> Iterator[tuple[vks.Sender, frame_sources.PipeSource]]:
    """A client's end, and the compositor's."""
    with ExitStack() as made:
        sender, descriptor = vks.pipe(client, 8, 4)
        made.enter_context(sender)
        with descriptor:
            source = frame_sources.PipeSource(device, descriptor)
        made.callback(source.close)
        yield sender, source


def send(sender: vks.Sender, colour: tuple[float, ...], waits: tuple[tuple[vks.Fence, int], ...] = ()) -> None:
    device = sender.device
    with sender.frame(timeout=20) as frame:
        device.submit(device.record().clear(frame.surface, colour), waits=waits)


def latch(source: frame_sources.FrameSource, frames: int) -> None:
    """Until that many frames were taken: some drivers tell other devices only later that work has run."""
    count = 0

    def have_come() -> bool:
        nonlocal count
        count += source.latch()
        return count >= frames

    until(have_come)
    assert count == frames


def seen(source: frame_sources.FrameSource) -> list[int]:
    assert source.picture is not None
    pixel: list[int] = source.picture.read()[0, 0].tolist()
    return pixel


def stamped_pipe(
    device: vks.Device, client: vks.Device, made: ExitStack, metadata_size: int = frame_sources.STAMP_SIZE
) -> tuple[vks.Sender, frame_sources.PipeSource]:
    sender, descriptor = vks.pipe(client, 8, 4, metadata_size=metadata_size)
    made.enter_context(sender)
    with descriptor:
        source = frame_sources.PipeSource(device, descriptor)
    made.callback(source.close)
    return sender, source


def send_finished(
    sender: vks.Sender, source: frame_sources.PipeSource, colour: tuple[float, ...], metadata: bytes
) -> None:
    """A frame whose work is known to have run by the compositor's device, too."""
    device = sender.device
    with sender.frame(metadata, timeout=20) as frame:
        device.submit(device.record().clear(frame.surface, colour))
    source._dequeue()
    until(lambda: source._is_finished(-1))


def test_a_frame_that_was_drawn_for_this_tick_does_not_displace_the_one_that_is_due(
    device: vks.Device, client: vks.Device
) -> None:
    with ExitStack() as made:
        sender, source = stamped_pipe(device, client, made)
        send_finished(sender, source, RED, frame_sources.stamp(1000))
        send_finished(sender, source, GREEN, frame_sources.stamp(2000))
        assert source.latch(2000) == 1
        assert seen(source) == [255, 0, 0, 255]
        assert source.has_unfinished_frame
        send_finished(sender, source, BLUE, frame_sources.stamp(3000))
        assert source.latch(3000) == 1
        assert seen(source) == [0, 255, 0, 255]
        assert source.latch(4000) == 1
        assert seen(source) == [0, 0, 255, 255]
        assert not source.has_unfinished_frame


def test_frames_of_several_ticks_ago_are_superseded_by_the_newest_that_is_due(
    device: vks.Device, client: vks.Device
) -> None:
    with ExitStack() as made:
        sender, source = stamped_pipe(device, client, made)
        for time, colour in ((1000, RED), (2000, GREEN), (3000, BLUE)):
            send_finished(sender, source, colour, frame_sources.stamp(time))
        assert source.latch(3000) == 2
        assert seen(source) == [0, 255, 0, 255]


def test_a_frame_that_claims_to_be_of_the_future_waits_for_one_tick_and_no_longer(
    device: vks.Device, client: vks.Device
) -> None:
    with ExitStack() as made:
        sender, source = stamped_pipe(device, client, made)
        send_finished(sender, source, RED, frame_sources.stamp(2**64 - 1))
        assert source.latch(1000) == 0
        assert source.latch(2000) == 1
        assert seen(source) == [255, 0, 0, 255]


@pytest.mark.parametrize("metadata", [b"", b"\xff" * 8, b"\xff" * frame_sources.STAMP_SIZE, b"\xff" * 32])
def test_metadata_of_the_users_own_is_no_stamp(device: vks.Device, client: vks.Device, metadata: bytes) -> None:
    with ExitStack() as made:
        sender, source = stamped_pipe(device, client, made, len(metadata))
        send_finished(sender, source, RED, metadata)
        assert source.latch(1000) == 1


@pytest.mark.rule("R18")
def test_the_newest_frame_is_the_picture_and_the_older_ones_go_back(
    device: vks.Device, client: vks.Device, pipe: tuple[vks.Sender, frame_sources.PipeSource]
) -> None:
    sender, source = pipe
    assert source.latch() == 0
    assert source.picture is None
    send(sender, RED)
    send(sender, GREEN)
    client.wait_idle(20)
    latch(source, 2)
    assert seen(source) == [0, 255, 0, 255]
    assert source.latch() == 0
    for colour in (RED, BLUE):  # of three surfaces one is shown
        send(sender, colour)
    client.wait_idle(20)
    with pytest.raises(AcquireTimeout), sender.frame(timeout=0):
        pass
    latch(source, 2)
    assert seen(source) == [0, 0, 255, 255]


@pytest.mark.rule("R18")
def test_one_latch_takes_all_complete_frames(
    client: vks.Device, pipe: tuple[vks.Sender, frame_sources.PipeSource]
) -> None:
    sender, source = pipe
    for colour in (RED, GREEN, BLUE):
        send(sender, colour)
    client.wait_idle(20)
    source._dequeue()
    until(lambda: all(source._is_finished(index) for index in range(3)))
    assert source.latch() == 3
    assert seen(source) == [0, 0, 255, 255]


@pytest.mark.rule("R18")
def test_a_frame_whose_work_has_not_run_is_not_waited_for(
    device: vks.Device, client: vks.Device, pipe: tuple[vks.Sender, frame_sources.PipeSource]
) -> None:
    sender, source = pipe
    send(sender, RED)
    client.wait_idle(20)
    latch(source, 1)
    with client.create_fence() as gate:
        send(sender, GREEN, ((gate, 1),))
        for _ in range(50):
            assert source.latch() == 0
        assert source.has_unfinished_frame
        assert seen(source) == [255, 0, 0, 255]
        gate.signal(1)
        latch(source, 1)
    assert not source.has_unfinished_frame
    assert seen(source) == [0, 255, 0, 255]


def test_a_client_that_closes_its_end_leaves_its_last_picture(
    device: vks.Device, client: vks.Device, pipe: tuple[vks.Sender, frame_sources.PipeSource]
) -> None:
    sender, source = pipe
    send(sender, GREEN)
    client.wait_idle(20)
    sender.close()
    latch(source, 1)
    source.latch()
    assert "closed its end" in source.end
    assert seen(source) == [0, 255, 0, 255]


def test_a_pipe_of_one_surface_and_a_queue_alone_are_refused(device: vks.Device, client: vks.Device) -> None:
    sender, descriptor = vks.pipe(client, 8, 4, count=1)
    with sender, descriptor, pytest.raises(UnsupportedError, match="a count of 2 or more"):
        frame_sources.open_source(device, descriptor, Keys(1, 0))
    with (
        vks.SurfaceQueue(client, 8, 4) as queue,
        queue.export() as descriptor,
        pytest.raises(InvalidCallError, match="not a pipe's"),
    ):
        frame_sources.open_source(device, descriptor, Keys(1, 0))


@pytest.mark.rule("E6")
def test_pictures_of_integers_are_refused_because_nothing_can_show_them(device: vks.Device, client: vks.Device) -> None:
    sender, descriptor = vks.pipe(client, 8, 4, "r32uint", count=2)
    with sender, descriptor, pytest.raises(UnsupportedError, match=r"a window of format r32uint .* not blended"):
        frame_sources.open_source(device, descriptor, Keys(1, 0))
    with (
        client.create_surface(8, 4, "r32uint") as surface,
        surface.export() as picture,
        pytest.raises(UnsupportedError, match=r"a window of format r32uint .* not blended"),
    ):
        frame_sources.open_source(device, picture, Keys(1, 0))


@pytest.mark.rule("E6")
def test_depth_is_refused_because_a_window_shows_colours(device: vks.Device, client: vks.Device) -> None:
    sender, descriptor = vks.pipe(client, 8, 4, "d16unorm", count=2)
    with (
        sender,
        descriptor,
        pytest.raises(UnsupportedError, match=r"a window of format d16unorm .*depth is not blended"),
    ):
        frame_sources.open_source(device, descriptor, Keys(1, 0))
    with (
        client.create_surface(8, 4, "d32float") as surface,
        surface.export() as picture,
        pytest.raises(UnsupportedError, match=r"a window of format d32float .*depth is not blended"),
    ):
        frame_sources.open_source(device, picture, Keys(1, 0))


def test_surfaces_without_the_usage_that_it_takes_are_refused_and_nothing_stays_open(
    device: vks.Device, client: vks.Device
) -> None:
    with client.create_surface(8, 4, usage=("render", "sample")) as surface, surface.export() as descriptor:
        with pytest.raises(InvalidCallError, match="needs usage 'copy'; this one was created with"):
            frame_sources.open_source(device, descriptor, Keys(1, 0))
        surface.acquire(0, 0)  # no other party has it
        surface.release(0)


@pytest.mark.rule("R18")
def test_a_surface_is_copied_when_its_key_comes_and_goes_back(device: vks.Device, client: vks.Device) -> None:
    with client.create_surface(8, 4) as surface, surface.export() as descriptor:
        source = frame_sources.open_source(device, descriptor, Keys(5, 9))
        assert source.latch() == 0
        surface.acquire(0)
        client.submit(client.record().clear(surface, RED))
        surface.release(5)
        latch(source, 1)
        surface.acquire(9, 20)
        client.submit(client.record().clear(surface, GREEN))
        assert source.latch() == 0
        assert seen(source) == [255, 0, 0, 255], "the client draws on, and the copy does not change"
        surface.release(5)
        latch(source, 1)
        assert seen(source) == [0, 255, 0, 255]
        source.close()
        surface.acquire(9, 20)  # the client can have it still
        surface.release(9)


def test_a_surface_whose_work_has_not_run_is_not_waited_for(device: vks.Device, client: vks.Device) -> None:
    with (
        client.create_surface(8, 4) as surface,
        surface.export() as descriptor,
        client.create_fence() as gate,
    ):
        source = frame_sources.open_source(device, descriptor, Keys(1, 0))
        surface.acquire(0)
        client.submit(client.record().clear(surface, BLUE), waits=((gate, 1),))
        surface.release(1)
        for _ in range(20):
            assert source.latch() == 0
        gate.signal(1)
        latch(source, 1)
        assert seen(source) == [0, 0, 255, 255]
        source.close()


def test_a_surface_that_its_client_abandons_ends_the_source(device: vks.Device, client: vks.Device) -> None:
    surface = client.create_surface(8, 4)
    with surface.export() as descriptor:
        source = frame_sources.open_source(device, descriptor, Keys(1, 0))
        source.latch()
        surface.acquire(0)
        surface.close()
        until(lambda: source.latch() == 0 and source.end != "")
        assert "died while it drew" in source.end
        source.close()
