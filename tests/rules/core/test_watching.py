"""Watching: copies of a source's frames, for which the source never waits. Rule W4."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pytest
from support.published_names import (
    LIMIT,
    Pipe,
    clear_red,
    has_ended,
    newest,
    newest_now,
    pixels_of,
    service_is_at_rest,
    wait_for_red,
)
from support.run_volumes import rounds
from support.shared_handles import opened, wait_until

import vkshare as vks
from vkshare.core import watching
from vkshare.core.outlet import MOST_WATCHERS, Outlet
from vkshare.errors import AcquireTimeout, ClosedError, DescriptorError, InvalidCallError

pytest_plugins = ["support.published_names"]

Open = Callable[..., vks.Device]


def _present(swapchain: vks.Swapchain, grey: int) -> None:
    """All channels alike: drivers have their own order of them."""
    with swapchain.frame() as frame:
        swapchain.device.submit(swapchain.device.record().clear(frame.view, (grey / 255,) * 4))


# ---- copies ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("W4")
@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_a_watcher_that_keeps_up_gets_each_frame_of_a_pipe(vks_open: Open, end: str) -> None:
    with Pipe(vks_open()) as pipe, watching.watch(getattr(pipe, end), vks_open()) as receiver:
        for serial in range(1, 8):
            red, now = pipe.turn(), time.monotonic_ns()
            with receiver.frame(LIMIT) as (surface, metadata):
                stamp = watching.stamp_of(metadata)
                assert stamp is not None
                assert stamp.serial == serial
                assert 0 < stamp.time_ns <= now
                assert surface.read()[0, 0, 0] == red
                assert (surface.width, surface.height, surface.format) == (16, 8, "rgba8unorm")


@pytest.mark.driver_dependent
@pytest.mark.rule("W4")
@pytest.mark.parametrize("form", ["rgba8unorm-srgb", "bgra8unorm", "rgba16float", "r32uint", "d32float"])
def test_copies_of_each_format_are_bit_exact(vks_open: Open, form: str) -> None:
    device = vks_open()
    with device.create_surface(24, 16, form) as surface, watching.watch(surface, vks_open()) as receiver:
        count = 24 * 16 * surface.spec.format.bytes_per_pixel
        picture = np.random.default_rng(3).integers(0, 50, count, np.uint8).view(surface._dtype).reshape(surface.shape)
        with surface.access():
            surface.write(picture)
        wait_until(lambda: pixels_of(receiver).tobytes() == picture.tobytes())


@pytest.mark.driver_dependent
@pytest.mark.rule("W4")
def test_a_surface_is_copied_whenever_an_owner_has_released_it_with_the_key(vks_open: Open) -> None:
    device, other = vks_open(), vks_open()
    with device.create_surface(16, 8) as surface, opened(surface, other) as theirs:
        publication = surface.publish(f"key {id(surface)}", key=3)
        with watching.watch(surface, device) as receiver:
            clear_red(theirs, 1, 0, 1)  # not complete by the publication's key
            with pytest.raises(AcquireTimeout):
                newest_after_some_looks(receiver)
            clear_red(theirs, 2, 1, 3)
            first = wait_for_red(receiver, 2)
            clear_red(theirs, 4, 3, 3)
            assert wait_for_red(receiver, 4) > first
        publication.close()


def newest_after_some_looks(receiver: vks.Receiver) -> int:
    """Returns the newest copy after the service thread has looked a dozen times."""
    time.sleep(0.1)
    return newest_now(receiver)


@pytest.mark.rule("W4")
def test_a_surface_that_rests_is_copied_once_and_left_alone(device: vks.Device) -> None:
    with device.create_surface(16, 8) as surface, watching.watch(surface, device) as receiver:
        newest(receiver)
        value = surface.mutex.statistics().value
        with pytest.raises(AcquireTimeout):
            newest_after_some_looks(receiver)
        statistics = surface.mutex.statistics()
        assert (statistics.value, statistics.state) == (value, "free")


@pytest.mark.rule("W4")
def test_a_surface_whose_owner_keeps_it_is_not_waited_for(device: vks.Device) -> None:
    with device.create_surface(16, 8) as surface, watching.watch(surface, device) as receiver:
        newest(receiver)
        with surface.access(timeout=LIMIT) as view:
            device.submit(device.record().clear(view, (1, 0, 0, 1)))
            with pytest.raises(AcquireTimeout):
                newest_after_some_looks(receiver)
            assert surface.mutex.statistics().waiters == ()
        assert wait_for_red(receiver, 255) == 2


@pytest.mark.driver_dependent
@pytest.mark.rule("W4")
@pytest.mark.parametrize("shown", ["before", "after"])
def test_a_watcher_of_a_swapchain_gets_the_last_picture_and_each_later_one(vks_open: Open, shown: str) -> None:
    device = vks_open()
    with device.create_swapchain(vks.Headless(16, 8)) as swapchain:
        if shown == "before":
            _present(swapchain, 7)
        with watching.watch(swapchain, vks_open()) as receiver:
            if shown == "before":
                assert newest(receiver) == (1, 7)
            for grey in range(1, 5):
                _present(swapchain, grey)
                assert newest(receiver)[1] == grey
            prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (200 / 255,) * 4))
            swapchain.present_prepared(prepared)
            assert newest(receiver)[1] == 200
            assert swapchain.capture()[0, 0, 0] == 200
        assert swapchain._presenting_hook is None


@pytest.mark.rule("W4")
@pytest.mark.parametrize("size", [(24, 12), (8, 4)])
def test_a_resize_ends_the_watchers_pipe_and_another_watch_has_the_new_size(
    device: vks.Device, size: tuple[int, int]
) -> None:
    with device.create_swapchain(vks.Headless(16, 8)) as swapchain, watching.watch(swapchain, device) as receiver:
        _present(swapchain, 1)
        swapchain.resize(*size)
        _present(swapchain, 2)
        wait_until(lambda: has_ended(receiver))
        with watching.watch(swapchain, device) as again:
            assert pixels_of(again).shape == (size[1], size[0], 4)


@pytest.mark.rule("W4")
def test_a_watcher_that_joins_while_the_first_frame_of_a_size_is_presented_gets_it(
    device: vks.Device, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That frame was copied for the watchers of before, and is not shown yet."""
    with device.create_swapchain(vks.Headless(16, 8)) as swapchain:
        _present(swapchain, 1)
        first = stack.enter_context(watching.watch(swapchain, device))
        second = []
        copy = Outlet.copy

        def copy_and_watch_again(outlet: Outlet, surface: vks.Surface) -> None:
            copy(outlet, surface)
            monkeypatch.undo()
            second.append(stack.enter_context(watching.watch(swapchain, device)))

        monkeypatch.setattr(Outlet, "copy", copy_and_watch_again)
        swapchain.resize(20, 10)
        _present(swapchain, 77)
        with second[0].frame(LIMIT) as (surface, _):
            assert surface.width == 20
            assert (surface.read() == 77).all()
        wait_until(lambda: has_ended(first))


@pytest.mark.rule("W4")
def test_a_watcher_of_an_idle_compositor_gets_its_picture(vks_open: Open) -> None:
    device = vks_open()
    with (
        vks.compositor.Compositor(device, vks.Headless(16, 8), background=(1, 0, 0, 1)) as compositor,
        watching.watch(compositor, vks_open()) as receiver,
    ):
        red = 2 if compositor.swapchain.format.startswith("bgra") else 0
        wait_until(lambda: pixels_of(receiver)[0, 0, red] == 255)


# ---- watchers that are slow, stopped or gone ---------------------------------------------------------------------


@pytest.mark.rule("W4")
def test_a_watcher_that_reads_nothing_stops_no_frame_and_gets_the_newest_at_last(vks_open: Open) -> None:
    with Pipe(vks_open()) as pipe, watching.watch(pipe.sender, vks_open()) as slow:
        assert pipe.sender._watched is not None
        for _ in range(rounds(100_000, 200)):
            last = pipe.turn()
        assert pipe.sender._watched.skipped == rounds(100_000, 200) - 3  # all but the surfaces that it has
        serial = wait_for_red(slow, last)
        assert serial == rounds(100_000, 200)


@pytest.mark.driver_dependent
@pytest.mark.rule("W4")
def test_work_of_a_watcher_that_never_ends_holds_up_neither_the_source_nor_its_receiver(vks_open: Open) -> None:
    """The surfaces come back with work on them that waits for a fence: a copy into one would wait for the fence too."""
    device, stopped = vks_open(), vks_open()
    with Pipe(device, vks_open()) as pipe, stopped.create_fence() as fence, ExitStack() as stack:
        receiver = stack.enter_context(watching.watch(pipe.sender, stopped))
        target = stack.enter_context(stopped.create_surface(16, 8))
        target.acquire(0, 0)
        for _ in range(3):
            pipe.turn()
            with receiver.frame(LIMIT) as (surface, _):
                stopped.submit(stopped.record().copy(surface, target), waits=(fence, 1))
        for _ in range(10):
            last = pipe.turn(reads=True)  # the frame's work has run for its own receiver
        assert device.statistics().held == 0
        fence.signal(1)
        wait_for_red(receiver, last)
        stopped.wait_idle()


@pytest.mark.rule("W4")
def test_one_slow_watcher_takes_no_frame_from_another(vks_open: Open) -> None:
    device = vks_open()
    with Pipe(device) as pipe, watching.watch(pipe.sender, device), watching.watch(pipe.sender, vks_open()) as fast:
        for serial in range(1, 20):
            red = pipe.turn()
            assert newest(fast) == (serial, red)


@pytest.mark.rule("W4")
def test_a_watcher_whose_copy_is_refused_is_dropped_alone(vks_open: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    device = vks_open()
    with Pipe(device) as pipe, watching.watch(pipe.sender, device) as bad, watching.watch(pipe.sender, device) as good:
        outlet = pipe.sender._watched
        assert outlet is not None

        def refused(*_: object) -> object:
            raise DescriptorError("its page was written over")

        monkeypatch.setattr(outlet.watchers[0], "commands", refused)
        for serial in range(1, 5):
            red = pipe.turn()
            assert newest(good) == (serial, red)
        wait_until(lambda: has_ended(bad))
        assert len(outlet.watchers) == 1


@pytest.mark.rule("W4")
def test_a_closed_watcher_is_dropped_and_without_one_nothing_is_left(device: vks.Device) -> None:
    with Pipe(device) as pipe:
        assert pipe.sender._watched is None
        receivers = [watching.watch(pipe.sender, device) for _ in range(3)]
        outlet = pipe.sender._watched
        assert outlet is not None
        for left, receiver in zip((2, 1, 0), receivers, strict=True):
            receiver.close()
            assert len(outlet.watchers) == left
            pipe.turn()
        assert pipe.sender._watched is None
        wait_until(service_is_at_rest)


@pytest.mark.rule("W4")
def test_a_source_has_sixteen_watchers_at_most(device: vks.Device, stack: ExitStack) -> None:
    with device.create_surface(4, 4) as surface:
        for _ in range(MOST_WATCHERS):
            stack.enter_context(watching.watch(surface, device, count=1))
        with pytest.raises(InvalidCallError, match="16 watchers are there"):
            watching.watch(surface, device)
        stack.close()
        watching.watch(surface, device).close()


@pytest.mark.rule("W4")
@pytest.mark.parametrize("kind", ["surface", "pipe", "swapchain"])
def test_a_closed_source_ends_its_watchers(vks_open: Open, kind: str) -> None:
    device = vks_open()
    source: vks.Surface | vks.Sender | vks.Swapchain
    if kind == "surface":
        source = device.create_surface(16, 8)
    elif kind == "pipe":
        source, descriptor = vks.pipe(device, 16, 8)
        descriptor.close()
    else:
        source = device.create_swapchain(vks.Headless(16, 8))
    with watching.watch(source, vks_open()) as receiver:
        source.close()
        wait_until(lambda: has_ended(receiver))
        with pytest.raises(ClosedError):
            watching.watch(source, device)


@pytest.mark.rule("W1")
def test_a_watcher_that_comes_while_a_source_closes_gets_no_pipe_that_never_ends(
    device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    with device.create_swapchain(vks.Headless(8, 8)) as swapchain:
        came: list[BaseException | object] = []
        end_outlets = swapchain._close_outlets

        def watch_meanwhile() -> None:
            end_outlets()
            try:
                came.append(watching.watch(swapchain, device))
            except ClosedError as error:
                came.append(error)

        monkeypatch.setattr(swapchain, "_close_outlets", watch_meanwhile, raising=False)
    (what,) = came
    assert isinstance(what, ClosedError)


@pytest.mark.rule("W4")
def test_a_closed_device_ends_the_watchers_of_its_sources(vks_open: Open) -> None:
    device = vks_open()
    surface = device.create_surface(16, 8)
    with watching.watch(surface, vks_open()) as receiver:
        device.close()
        wait_until(lambda: has_ended(receiver))
    wait_until(service_is_at_rest)


def test_a_wrong_argument_is_named(device: vks.Device) -> None:
    with device.create_surface(4, 4) as surface:
        with pytest.raises(TypeError, match="device must be a Device, not str"):
            watching.watch(surface, "cpu")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"count is 9.*8"):
            watching.watch(surface, device, count=9)
        with pytest.raises(TypeError, match="name must be a string, not int"):
            watching.watch(3, device)  # type: ignore[arg-type]


def test_metadata_of_another_pipe_is_no_stamp() -> None:
    stamp = watching.Stamp(5, 2**63)
    assert watching.stamp_of(stamp.pack()) == stamp
    assert len(stamp.pack()) == watching.STAMP_SIZE
    for other in (b"", b"x" * 24, stamp.pack()[:-1], stamp.pack() + b"x"):
        assert watching.stamp_of(other) is None
