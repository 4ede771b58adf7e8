"""Hosts, viewers and programs that are killed, closed or interrupted with work under way. Rules M6 and M17."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from support.fd_counts import open_fds
from support.remote_ends import TOKEN, WAIT, Ends, random_pixels
from support.run_volumes import rounds, seeded, unhurried
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.errors import AbandonedError, RemoteLostError, VkshareError
from vkshare.remote.device import open_device

pytestmark = [pytest.mark.no_driver, pytest.mark.program, unhurried]

KEEPALIVE, GRACE = 0.5, 0.5  # seconds

VIEWER = """
import sys, vkshare as vks
with vks.open(backend="cpu") as device:
    with vks.remote.Viewer(sys.argv[1], token=sys.argv[2], device=device, headless=True) as viewer:
        print("up", flush=True)
        viewer.run()
"""

HOST = f"""
import sys, vkshare as vks
with vks.remote.Host("127.0.0.1:0", token=sys.argv[1], keepalive={KEEPALIVE}, grace={GRACE}) as host:
    print(host.address, host.path, flush=True)
    sys.stdin.read()
"""

PROGRAM = """
import sys, numpy as np, vkshare as vks
from vkshare.remote.device import open_device
with open_device(sys.argv[1]) as device, device.create_surface(512, 512) as surface:
    pixels, number = np.random.default_rng(1).integers(0, 256, (512, 512, 4), np.uint8), 0
    while True:
        with surface.access():
            surface.write(pixels + np.uint8(number))
            device.submit(device.record().fill_rect(surface, (0, 0, 9, 9), (1, 0, 0, 1)))
            if number % 3 == 0:
                surface.read()
        number += 1
        if number == 2:
            print("drawing", flush=True)
"""


@pytest.fixture
def stack(vks_device: vks.Device) -> Iterator[ExitStack]:  # closed before the device
    with ExitStack() as opened:
        yield opened


@contextlib.contextmanager
def process(code: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A program, and the words of its first line."""
    command = [sys.executable, "-c", code, *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as started:  # type: ignore[call-overload]
        try:
            yield started, started.stdout.readline().split()
        finally:
            started.kill()


def busy(device: vks.Device, seed: int) -> None:
    """Draws, writes and reads until the device is lost."""
    dice = random.Random(seed)
    with contextlib.suppress(VkshareError), device.create_surface(200, 150) as surface:
        while True:
            with surface.access(timeout=WAIT) as view:
                if dice.random() < 0.3:
                    surface.write(random_pixels(surface, dice.randrange(99)))
                device.submit(device.record().fill_rect(view, (0, 0, 50, 50), (dice.random(), 0, 0, 1)))
                if dice.random() < 0.2:
                    surface.read(WAIT)


@contextlib.contextmanager
def working(devices: list[vks.Device]) -> Iterator[None]:
    """Threads that work with the devices; they end with them."""
    threads = [threading.Thread(target=busy, args=(device, i)) for i, device in enumerate(devices)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive(), "a call waits for ever"


def _keeps_its_files(counts: list[Counter[str]]) -> None:
    """Notes the open files, once there are no others than after the first call."""
    if counts:
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not _files() - counts[0])
        assert not _files() - counts[0], f"round {len(counts)}"
    counts.append(_files())


def _files() -> Counter[str]:
    """The open files of this process, by their kinds."""
    found = Counter[str]()
    for fd in open_fds():
        with contextlib.suppress(OSError):  # another thread has closed it
            found[re.sub(r"[0-9]+", "", os.readlink(f"/proc/self/fd/{fd}"))] += 1
    return found


def _draws(device: vks.Device) -> None:
    with device.create_surface(8, 8) as surface, surface.access():
        device.submit(device.record().clear(surface, (1, 0, 0, 1)))
        assert surface.read()[0, 0].tolist() == [255, 0, 0, 255]


# ---- viewers --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("M6", "M17")
def test_viewers_that_are_killed_are_noticed_and_the_next_one_draws(stack: ExitStack) -> None:
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN, keepalive=KEEPALIVE, grace=GRACE))
    dice, counts = seeded(), list[Counter[str]]()
    for _ in range(rounds(300, 3)):
        with process(VIEWER, host.address, TOKEN) as (viewer, words):
            assert words == ["up"]
            devices = [host.open(WAIT, name=f"{i}") for i in range(3)]
            _draws(devices[0])
            with working(devices):
                time.sleep(dice.uniform(0, 0.1))
                viewer.kill()
                for device in devices:
                    _until_lost(device)
            for device in devices:
                device.close()
        _keeps_its_files(counts)


def _until_lost(device: vks.Device) -> None:
    wait_until(lambda: device.is_lost)
    with pytest.raises(VkshareError, match="lost"):
        device.create_surface(8, 8)


@pytest.mark.rule("M6")
def test_a_viewer_that_is_closed_with_work_under_way_ends_that_work(stack: ExitStack, vks_device: vks.Device) -> None:
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN))
    dice = seeded()
    for _ in range(rounds(300, 4)):
        viewer = vks.remote.Viewer(host.address, token=TOKEN, device=vks_device, headless=True)
        devices = [stack.enter_context(host.open(WAIT)) for _ in range(2)]
        with working(devices):
            time.sleep(dice.uniform(0, 0.05))
            viewer.close()
    assert vks_device.statistics().surfaces == 0


# ---- hosts ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("M6")
def test_a_host_that_is_killed_is_noticed_by_programs_and_viewer(stack: ExitStack, vks_device: vks.Device) -> None:
    dice, counts = seeded(), list[Counter[str]]()
    for _ in range(rounds(300, 3)):
        with process(HOST, TOKEN) as (host, (address, path)):
            viewer = vks.remote.Viewer(address, token=TOKEN, device=vks_device, headless=True, grace=GRACE)
            devices = [open_device(path, timeout=WAIT) for _ in range(2)]
            surface = devices[0].create_surface(8, 8)
            with vks.open(backend="cpu") as local, surface.export() as descriptor:  # noqa: SIM117
                with local.open_surface(descriptor) as other, working(devices):
                    surface.acquire(0)
                    time.sleep(dice.uniform(0, 0.05))
                    host.kill()
                    with pytest.raises(AbandonedError):
                        other.acquire(1, WAIT)
                    with pytest.raises(RemoteLostError):
                        viewer.run(WAIT)
            viewer.close()
            for device in devices:
                assert device.is_lost
                device.close()
        vks_device.wait_idle(WAIT)
        _keeps_its_files(counts)
    assert vks_device.statistics().surfaces == 0


@pytest.mark.rule("M6")
def test_a_host_that_is_closed_with_work_under_way_ends_that_work(stack: ExitStack, vks_device: vks.Device) -> None:
    dice = seeded()
    for _ in range(rounds(300, 4)):
        with ExitStack() as opened:
            ends = Ends(opened, vks_device, rate=1_000_000, delay=0.01)
            devices = [stack.enter_context(ends.open()) for _ in range(3)]
            with working(devices):
                time.sleep(dice.uniform(0, 0.1))
                ends.host.close()


# ---- programs -------------------------------------------------------------------------------------------------------


def _end_programs(ends: Ends, end: Callable[[subprocess.Popen[str]], None], count: int) -> None:
    """Ends programs that write, draw and read, at any time; one of this process goes on."""
    dice, counts = seeded(), list[Counter[str]]()
    with ends.open() as device:
        for _ in range(count):
            with process(PROGRAM, str(ends.host.path)) as (program, words):
                assert words == ["drawing"], program.stderr.read()  # type: ignore[union-attr]
                time.sleep(dice.uniform(0, 0.05))
                end(program)
                _draws(device)
            wait_until(lambda: ends.viewer.statistics().programs == 1)
            wait_until(lambda: ends.viewer._server.statistics().workers == 1)
            wait_until(lambda: not ends.host._relay._images)
            wait_until(lambda: _pictures_of(ends.viewer) == 0)
            ends.viewer._device.wait_idle(WAIT)
            _keeps_its_files(counts)


def _pictures_of(viewer: vks.remote.Viewer) -> int:
    viewer._pictures.reap()
    return len(viewer._pictures._pictures) + len(viewer._pictures._used)


@pytest.mark.rule("M6")
def test_programs_that_are_killed_in_the_middle_of_uploads_leave_nothing(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    _end_programs(Ends(stack, vks_device, rate=20_000_000), lambda program: program.kill(), rounds(1000, 4))


@pytest.mark.rule("M6")
def test_programs_that_are_interrupted_end_at_once(stack: ExitStack, vks_device: vks.Device) -> None:
    def interrupt(program: subprocess.Popen[str]) -> None:
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=WAIT)
        assert program.returncode == -signal.SIGINT, errors
        assert errors.count("Traceback") == 1, errors

    _end_programs(Ends(stack, vks_device), interrupt, rounds(300, 2))


@pytest.mark.rule("M5", "M6")
def test_the_turn_of_an_upload_whose_program_died_passes_on(stack: ExitStack, vks_device: vks.Device) -> None:
    """The program that is killed has sent part of the picture, or all of it; the surface is shared."""
    ends = Ends(stack, vks_device, rate=1_000_000)
    device = stack.enter_context(ends.open())
    surface = stack.enter_context(device.create_surface(300, 300))
    dice = seeded()
    for number in range(rounds(300, 3)):
        with uploader(str(ends.host.path), surface) as child:
            time.sleep(dice.uniform(0, 0.4))
            os.kill(child, signal.SIGKILL)
        try:
            surface.acquire(0, WAIT)
            surface.read(WAIT)
        except AbandonedError:
            if surface.is_owned:
                with contextlib.suppress(AbandonedError):
                    surface.release(0)
            surface.recover()
        device.submit(device.record().clear(surface, (number % 256 / 255, 0, 0, 1)))
        assert (surface.read(WAIT) == np.array([number % 256, 0, 0, 255])).all()
        surface.release(0)


@contextlib.contextmanager
def uploader(path: str, surface: vks.Surface) -> Iterator[int]:
    """A program that has opened the surface and begun; its pid."""
    with surface.export() as descriptor:
        receive, send = multiprocessing.Pipe(False)
        child = multiprocessing.get_context("spawn").Process(target=_upload, args=(path, descriptor, send))
        child.start()
        send.close()
        assert receive.recv() == "begins"
    try:
        assert child.pid
        yield child.pid
    finally:
        child.kill()
        child.join()
        receive.close()


def _upload(path: str, descriptor: vks.SurfaceDescriptor, send: object) -> None:
    with open_device(path) as device, device.open_surface(descriptor) as surface, surface.access():
        send.send("begins")  # type: ignore[attr-defined]
        while True:
            surface.write(random_pixels(surface, 1))
            device.submit(device.record().fill_rect(surface, (0, 0, 300, 9), (0, 1, 0, 1)))
