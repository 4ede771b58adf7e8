"""Viewers, hosts, programs and compositors that are killed at numbered points. Rules M6 and M17."""

from __future__ import annotations

import contextlib
import subprocess
from collections import Counter
from contextlib import ExitStack

import pytest
from support.numbered_kills import point
from support.remote_ends import TOKEN, WAIT, Ends
from support.remote_kills import await_end, draws, keeps_its_files, until_lost, working
from support.remote_programs import COMPOSITOR, GRACE, HOST, KEEPALIVE, PROGRAM, VIEWER, process
from support.run_volumes import rounds, seeded, unhurried
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.errors import RemoteLostError, VkshareError
from vkshare.remote.device import open_device

pytest_plugins = ["support.published_names"]
pytestmark = [pytest.mark.no_driver, pytest.mark.program, pytest.mark.rule("M6", "M17"), unhurried]


def devices_of(path: str, end: subprocess.Popen[str], count: int) -> list[vks.Device]:
    """Remote devices; fewer if that end dies meanwhile."""
    opened: list[vks.Device] = []
    while len(opened) < count and end.poll() is None:
        with contextlib.suppress(TimeoutError, VkshareError, OSError):
            opened.append(open_device(path, timeout=0.5))
    return opened


def await_death(end: subprocess.Popen[str]) -> None:
    assert end.wait(WAIT) == -9, end.stderr.read()  # type: ignore[union-attr]


def test_a_viewer_that_dies_at_any_point_is_noticed_and_the_next_one_draws(stack: ExitStack) -> None:
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN, keepalive=KEEPALIVE, grace=GRACE))
    dice, counts = seeded(), list[Counter[str]]()
    for _ in range(rounds(300, 2, full=20)):
        with process(VIEWER, host.address, TOKEN, kill_at=point(dice)) as (viewer, _):
            devices = devices_of(str(host.path), viewer, 3)
            with working(devices):
                await_death(viewer)
                for device in devices:
                    until_lost(device)
            for device in devices:
                device.close()
        keeps_its_files(counts)
    with process(VIEWER, host.address, TOKEN) as (_, words), host.open(WAIT) as device:
        assert words == ["up"]
        draws(device)


def test_a_host_that_dies_at_any_point_is_noticed_by_programs_and_viewer(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    dice, counts = seeded(), list[Counter[str]]()
    for _ in range(rounds(300, 2, full=20)):
        with process(HOST, TOKEN, kill_at=point(dice)) as (host, words):
            if words:
                address, path = words
                with contextlib.suppress(RemoteLostError, OSError), ExitStack() as opened:
                    viewer = vks.remote.Viewer(address, token=TOKEN, device=vks_device, headless=True, grace=GRACE)
                    opened.enter_context(viewer)
                    devices = devices_of(path, host, 2)
                    with working(devices):
                        await_death(host)
                    for device in devices:
                        wait_until(lambda device=device: device.is_lost)  # type: ignore[misc]
                        device.close()
                    viewer.run(WAIT)
            await_death(host)
        vks_device.wait_idle(WAIT)
        keeps_its_files(counts)
    assert vks_device.statistics().surfaces == 0


def test_a_program_that_dies_at_any_point_leaves_nothing_and_stops_no_other_one(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    ends = Ends(stack, vks_device, rate=20_000_000)
    dice, counts = seeded(), list[Counter[str]]()
    with ends.open() as device:
        for _ in range(rounds(300, 2, full=20)):
            with process(PROGRAM, str(ends.host.path), kill_at=point(dice)) as (program, _):
                await_death(program)
                draws(device)
            await_end(ends, counts)


@pytest.mark.usefixtures("runtime")
def test_compositors_that_die_at_any_point_show_each_frame_once_and_the_client_goes_on(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    ends = Ends(stack, vks_device)
    device = stack.enter_context(ends.open())
    sender, descriptor = vks.pipe(device, 32, 32, metadata_size=8)
    stack.enter_context(descriptor)
    stack.enter_context(sender)
    sender.publish("frames")
    dice, number, last = seeded(), 0, 0
    for _ in range(rounds(300, 2, full=20)):
        with process(COMPOSITOR, str(ends.host.path), "frames", kill_at=point(dice)) as (compositor, words):
            while compositor.poll() is None:
                with contextlib.suppress(vks.AcquireTimeout, vks.ClosedError), sender.frame(timeout=0.05) as frame:
                    number += 1
                    frame.metadata = number.to_bytes(8, "little")
                    device.submit(device.record().clear(frame.view, (number % 256 / 255, 0, 0, 1)))
            await_death(compositor)
            shown = [int(line) for line in compositor.stdout.read().split()] if words else []  # type: ignore[union-attr]
        assert shown == sorted(set(shown)), "a frame was shown twice, or out of its order"
        assert not shown or shown[0] > last
        last = max([last, *shown])
        wait_until(lambda: ends.viewer.statistics().programs == 1)
    draws(device)
