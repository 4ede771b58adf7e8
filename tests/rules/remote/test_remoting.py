"""Devices that draw at a viewer: pictures, orders, uploads, waits, windows. Rules M1 to M5, M9, M14 to M16."""

from __future__ import annotations

import multiprocessing
import threading
from contextlib import ExitStack

import numpy as np
import pytest
from support.pixel_formats import ONE_PLANE
from support.remote_ends import WAIT, Ends, draw, random_pixels
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.errors import AcquireTimeout, InvalidCallError, UnsupportedError


@pytest.fixture
def ends(stack: ExitStack, vks_device: vks.Device) -> Ends:
    return Ends(stack, vks_device)


@pytest.fixture
def remote(stack: ExitStack, ends: Ends) -> vks.Device:
    return stack.enter_context(ends.open())


# ---- pictures -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("M2", "M9")
@pytest.mark.parametrize("format", ONE_PLANE)
def test_a_remote_device_draws_what_the_viewers_own_device_draws(
    vks_device: vks.Device, remote: vks.Device, format: str
) -> None:
    if format not in vks_device.capabilities.formats:
        pytest.skip(f"the driver has no {format}")
    assert np.array_equal(draw(remote, format), draw(vks_device, format), equal_nan=True)


@pytest.mark.rule("M9")
def test_depth_is_tested_at_the_viewer(vks_device: vks.Device, remote: vks.Device) -> None:
    def picture(device: vks.Device) -> np.ndarray:
        near = np.array(
            [[-1, -1, 0.2, 1, 1, 0, 0, 1], [1, -1, 0.9, 1, 1, 0, 0, 1], [0, 1, 0.5, 1, 1, 0, 0, 1]], np.float32
        )
        flat = near.copy()
        flat[:, 2], flat[:, 4:7] = 0.5, (0, 1, 0)
        with (
            device.create_surface(40, 30) as target,
            device.create_surface(40, 30, "d32float") as depth,
            target.access() as to,
            depth.access() as test,
        ):
            list_ = device.record().clear(to, (0, 0, 0, 1)).clear(test, 1.0)
            list_.draw_triangles(to, near, depth=test).draw_triangles(to, flat, depth=test, depth_test="greater")
            device.submit(list_)
            return target.read()

    assert np.array_equal(picture(remote), picture(vks_device))


@pytest.mark.rule("M12", "M16")
def test_a_list_of_more_than_a_message_is_drawn(vks_device: vks.Device, remote: vks.Device) -> None:
    def picture(device: vks.Device) -> np.ndarray:
        rows = np.random.default_rng(5).uniform(-1, 1, (60_000, 6)).astype(np.float32)
        rows[:, 2:] = np.abs(rows[:, 2:])
        with device.create_surface(64, 64) as target, target.access() as view:
            device.submit(device.record().clear(view, (0, 0, 0, 0)).draw_triangles(view, rows))
            return target.read()

    assert np.array_equal(picture(remote), picture(vks_device))


# ---- orders -------------------------------------------------------------------------------------------------------


def _add(device: vks.Device, descriptor: vks.SurfaceDescriptor, key: int, count: int, members: int) -> None:
    """Takes turns: each composites a half-transparent square over all that was there, so that the order is seen."""
    with device.open_surface(descriptor) as surface, device.create_surface(24, 24) as stamp:
        for i in range(count):
            turn = i * members + key
            with stamp.access() as view:
                colour = ((turn * 37 % 97) / 97, (turn * 11 % 53) / 53, (turn % 7) / 7, 0.5)
                device.submit(device.record().clear(view, colour))
                with surface.access(turn, turn + 1, WAIT) as view:
                    at = (turn * 5 % 40, turn * 3 % 40)
                    device.submit(device.record().composite(stamp, view, at, 0.7))


@pytest.mark.rule("M2", "M15")
@pytest.mark.parametrize("network", [{}, {"delay": 0.01, "jitter": 0.01}], ids=["near", "far"])
def test_turns_of_several_programs_are_repeated_in_the_order_of_the_grants(
    vks_device: vks.Device, stack: ExitStack, network: dict[str, float]
) -> None:
    ends, members, count = Ends(stack, vks_device, **network), 3, 12

    def picture(open_device: object, own: vks.Device) -> np.ndarray:
        devices = [open_device() for _ in range(members)]  # type: ignore[operator]
        with own.create_surface(64, 64) as surface, surface.export() as descriptor:
            threads = [
                threading.Thread(target=_add, args=(device, descriptor, key, count, members))
                for key, device in enumerate(devices)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with surface.access(members * count, 0, WAIT):
                return surface.read()

    with ends.open() as own:
        opened: list[vks.Device] = []
        seen = picture(lambda: opened.append(stack.enter_context(ends.open())) or opened[-1], own)
    assert np.array_equal(seen, picture(lambda: vks_device, vks_device))


def _child(path: str, descriptor: vks.SurfaceDescriptor) -> None:
    from vkshare.remote.device import open_device

    with open_device(path) as device, device.open_surface(descriptor) as surface:
        for turn in range(1, 9, 2):
            with surface.access(turn, turn + 1, WAIT) as view:
                device.submit(device.record().fill_rect(view, (turn, turn, 8, 8), (turn / 10, 0, 0, 1)))


@pytest.mark.rule("M15")
def test_programs_of_several_processes_share_surfaces_by_descriptors(ends: Ends, remote: vks.Device) -> None:
    with remote.create_surface(32, 32) as surface, surface.export() as descriptor:
        other = multiprocessing.get_context("spawn").Process(target=_child, args=(str(ends.host.path), descriptor))
        other.start()
        for turn in range(0, 8, 2):
            with surface.access(turn, turn + 1, WAIT) as view:
                remote.submit(remote.record().fill_rect(view, (turn, turn, 8, 8), (0, turn / 10, 0, 1)))
        with surface.access(8, 0, WAIT):
            pixels = surface.read()
        other.join()
    assert other.exitcode == 0
    expected = np.zeros((32, 32, 4), np.uint8)
    for turn in range(8):
        colour = [round(turn / 10 * 255) if channel == turn % 2 ^ 1 else 0 for channel in range(3)]
        expected[turn : turn + 8, turn : turn + 8] = [*colour, 255]
    assert np.abs(pixels.astype(int) - expected).max() <= 1


@pytest.mark.rule("M14")
def test_pipes_carry_remote_surfaces(ends: Ends, remote: vks.Device, stack: ExitStack) -> None:
    reader = stack.enter_context(ends.open("reader"))
    sender, descriptor = vks.pipe(remote, 16, 8, metadata_size=1)
    with sender, descriptor, vks.open_receiver(reader, descriptor) as receiver:
        for number in range(9):
            with sender.frame(bytes([number]), WAIT) as frame:
                remote.submit(remote.record().clear(frame.view, (number / 255, 0, 0, 1)))
            with receiver.frame(WAIT) as (surface, metadata):
                assert surface.read()[0, 0, 0] == metadata[0] == number


# ---- traffic --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("M1", "M3")
def test_acquires_and_releases_send_nothing(ends: Ends, remote: vks.Device, stack: ExitStack) -> None:
    other = stack.enter_context(ends.open())
    with remote.create_surface(8, 8) as surface:  # noqa: SIM117
        with surface.export() as descriptor, other.open_surface(descriptor) as handle:
            before = ends.sent()
            for key in range(50):
                with surface.access(2 * key, 2 * key + 1, WAIT):
                    pass
                with handle.access(2 * key + 1, 2 * key + 2, WAIT):
                    pass
            with pytest.raises(AcquireTimeout):
                handle.acquire(7, 0.01)
            assert ends.sent() == before


@pytest.mark.rule("M3")
def test_a_viewer_that_hears_nothing_for_a_while_ends_no_wait(stack: ExitStack, vks_device: vks.Device) -> None:
    ends = Ends(stack, vks_device, delay=0.001)
    with ends.open() as remote, remote.create_surface(32, 32) as surface, ends.open() as other:  # noqa: SIM117
        with surface.export() as descriptor, other.open_surface(descriptor) as handle:
            assert ends.link is not None
            ends.link.stall(0.5)
            for key in range(30):
                device, owned = ((remote, surface), (other, handle))[key % 2]
                with owned.access(key, key + 1, WAIT) as view:
                    device.submit(device.record().clear(view, (key / 255, 0, 0, 1)))
            with surface.access(30, 0, WAIT):
                assert surface.read()[0, 0, 0] == 29


@pytest.mark.rule("M9", "M15")
def test_a_write_sends_the_tiles_that_it_changes(ends: Ends, remote: vks.Device) -> None:
    with remote.create_surface(640, 320) as surface, surface.access():
        pixels = random_pixels(surface, 3)
        surface.write(pixels)
        remote.wait_idle(WAIT)
        before = ends.sent()
        surface.write(pixels)
        remote.wait_idle(WAIT)
        assert ends.sent() == before
        pixels[100:110, 200:210] = 9
        surface.write(pixels)
        remote.wait_idle(WAIT)
        tile = 32 * 32 * 4
        assert ends.sent()[1] - before[1] < 2 * tile
        assert np.array_equal(surface.read(), pixels)
        remote.submit(remote.record().fill_rect(surface, (0, 0, 10, 10), (1, 1, 1, 1)))
        surface.write(pixels)  # the viewer's pixels are others than those of the last write
        assert np.array_equal(surface.read(), pixels)


@pytest.mark.rule("M7", "M9")
def test_a_loop_of_writes_is_slowed_down_to_what_the_link_takes(stack: ExitStack, vks_device: vks.Device) -> None:
    ends = Ends(stack, vks_device, delay=0.01, rate=4_000_000)
    with ends.open() as device, device.create_surface(128, 64) as surface, surface.access():
        for number in range(150):  # more than a host lets be under way
            pixels = random_pixels(surface, number)
            surface.write(pixels)
        assert np.array_equal(surface.read(), pixels)


@pytest.mark.rule("M15")
def test_tiles_that_a_cpu_device_of_this_machine_wrote_are_sent_before_the_next_use(
    ends: Ends, remote: vks.Device
) -> None:
    with vks.open(backend="cpu") as local, remote.create_surface(300, 200) as surface:  # noqa: SIM117
        with surface.export() as descriptor, local.open_surface(descriptor) as handle:
            pixels = random_pixels(surface, 4)
            with handle.access(0, 1) as view:
                view.array[...] = pixels
            with surface.access(1, 2, WAIT):
                assert np.array_equal(surface.read(), pixels)
            before = ends.sent()[1]
            with handle.access(2, 3, WAIT) as view:
                view.array[10:20, 10:20] = pixels[10:20, 10:20] = 77
            with surface.access(3, 0, WAIT) as view:
                remote.submit(remote.record().fill_rect(view, (100, 100, 10, 10), (0, 0, 0, 0)))
                pixels[100:110, 100:110] = 0
                assert np.array_equal(surface.read(), pixels)
            assert ends.sent()[1] - before < 2 * 32 * 32 * 4


@pytest.mark.rule("M4", "M5")
def test_a_picture_on_a_slow_link_is_whole_and_holds_up_no_other_program(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    ends = Ends(stack, vks_device, rate=2_000_000, delay=0.005)
    writer, other = stack.enter_context(ends.open("writer")), stack.enter_context(ends.open("other"))
    large = stack.enter_context(writer.create_surface(600, 400))
    small = stack.enter_context(other.create_surface(8, 8))
    pixels = random_pixels(large, 6)
    with large.access(0, 1, WAIT):
        large.write(pixels)
        for number in range(20):
            with small.access() as view:
                other.submit(other.record().clear(view, (number / 255, 0, 0, 1)))
        with small.access():
            assert small.read()[0, 0, 0] == 19
    with large.export() as descriptor, other.open_surface(descriptor) as handle, handle.access(1, 0, WAIT):
        assert np.array_equal(handle.read(), pixels)


# ---- windows --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("M14")
def test_a_window_at_the_viewer_shows_the_newest_frame(ends: Ends, remote: vks.Device) -> None:
    window = ends.host.window(32, 16, "shown")
    with ends.showing():
        with remote.create_swapchain(window, present_mode="mailbox") as swapchain:
            for number in range(1, 12):
                with swapchain.frame(timeout=WAIT) as frame:
                    remote.submit(remote.record().clear(frame.view, (number / 255, 0, 0, 1)))
            wait_until(lambda: ends.viewer.pictures().get("shown", np.zeros((1, 1, 4)))[0, 0, 0] == 11)
            assert ends.viewer.pictures()["shown"].shape == (16, 32, 4)
            assert swapchain.capture()[0, 0, 0] == 11
            with pytest.raises(InvalidCallError, match="has a swapchain"):
                remote.create_swapchain(window)
        wait_until(lambda: "shown" not in ends.viewer.pictures())


@pytest.mark.rule("M14")
def test_events_of_a_window_reach_its_program_and_its_size_is_followed(ends: Ends, remote: vks.Device) -> None:
    from vkshare.remote import relay_messages as m
    from vkshare.window.events import Event

    window = ends.host.window(32, 16, "events")
    with pytest.raises(InvalidCallError, match="is not open"):
        window.events()
    with ends.showing(), remote.create_swapchain(window) as swapchain:
        with swapchain.frame(timeout=WAIT) as frame:
            remote.submit(remote.record().clear(frame.view, (0, 0, 0, 1)))
        wait_until(lambda: "events" in ends.viewer.pictures())
        ((number, shown),) = ends.viewer._windows._windows.items()
        given = [
            Event("key_down", 1.5, key="a", modifiers=("Shift",)),
            Event("resize", 2.0, width=24.0, height=20.0, pixel_ratio=2.0),
        ]
        import json

        for event in given:
            ends.viewer._tell(shown.client, m.Input(number, json.dumps(event.as_dict()).encode()))
        found: list[Event] = []
        wait_until(lambda: found.extend(window.events()) or len(found) == 2)
        assert found == given
        for _ in range(2):
            with swapchain.frame(timeout=WAIT) as frame:
                remote.submit(remote.record().clear(frame.view, (1, 0, 0, 1)))
        assert swapchain.extent == (48, 40)
        wait_until(lambda: ends.viewer.pictures()["events"].shape == (40, 48, 4))


# ---- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("M14")
def test_what_cannot_be_remote_is_refused_with_the_reason(remote: vks.Device) -> None:
    with remote.create_surface(8, 8) as surface, surface.access() as view:
        with pytest.raises(UnsupportedError):
            _ = view.array
        with pytest.raises(UnsupportedError):
            view.__dlpack__()
    with pytest.raises(UnsupportedError, match="only pictures travel"):
        remote.create_buffer(16)
    with pytest.raises(UnsupportedError, match="VkDevice is on another machine"):
        _ = remote.handles
    with pytest.raises(UnsupportedError, match="write"):
        remote.share_array(np.zeros((4, 4, 4), np.uint8))
    with pytest.raises(UnsupportedError, match="linear"):
        remote.create_surface(8, 8, tiling="optimal")
    with vks.open(backend="cpu") as local, local.create_surface(8, 8) as own, own.export() as descriptor:  # noqa: SIM117
        with pytest.raises(vks.DescriptorError, match="not at this host's viewer"):
            remote.open_surface(descriptor)


@pytest.mark.rule("M14")
def test_without_a_viewer_open_waits_and_times_out(stack: ExitStack) -> None:
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token="a token of the tests"))
    with pytest.raises(TimeoutError):
        host.open(0.05)


@pytest.mark.rule("M16")
def test_a_program_of_vkshare_remote_opens_its_device_and_window_at_the_viewer(ends: Ends) -> None:
    import os

    code = """
    import vkshare as vks
    device, window = vks.open(), vks.Window(40, 30, "theirs")
    assert device.backend == "remote", device
    with device, device.create_swapchain(window) as swapchain:
        with swapchain.frame() as frame:
            device.submit(device.record().clear(frame.view, (0, 1, 0, 1)))
        print(window.framebuffer_size, len(window.poll()), vks.open(backend="cpu").backend)
        import time
        while window.poll(0.05) is not None and not input(): pass
    """
    environment = {k: v for k, v in os.environ.items() if k not in ("VKSHARE_BACKEND", "VKSHARE_ADAPTER")}
    import subprocess
    import sys
    import textwrap

    with ends.showing():
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**environment, "VKSHARE_REMOTE": str(ends.host.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: "theirs" in ends.viewer.pictures())
        assert ends.viewer.pictures()["theirs"][0, 0].tolist() == [0, 255, 0, 255]
        output, _ = child.communicate("over\n", timeout=WAIT)
    assert child.returncode == 0
    assert output == "(40, 30) 0 cpu\n"


@pytest.mark.rule("M13", "M16")
def test_requests_for_things_of_other_programs_are_refused(ends: Ends, remote: vks.Device) -> None:
    _ask_for_others(str(ends.host.path))
    with remote.create_surface(8, 8) as surface, surface.access():
        assert surface.read().shape == (8, 8, 4)


def _ask_for_others(path: str) -> None:
    from vkshare.remote import relay_messages as m
    from vkshare.server import Client

    with Client(path) as client:
        for opcode, body in (
            (m.Op.CLOSE_IMAGE, m.ById(1)),
            (m.Op.PRESENT, m.Present(1, 1)),
            (m.Op.BATCH, m.Batch(((1, True),), b"\x90")),
            (m.Op.JOIN, m.Join(1, bytes(16))),
        ):
            with pytest.raises(InvalidCallError):
                client.call(opcode, body)
