"""Hosts, viewers and programs that are killed, closed or interrupted with work under way. Rules M6 and M17."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from support.remote_ends import TOKEN, WAIT, Ends, random_pixels
from support.remote_kills import await_end, draws, keeps_its_files, until_lost, working
from support.remote_programs import GRACE, HOST, KEEPALIVE, PROGRAM, VIEWER, process
from support.run_volumes import rounds, seeded, unhurried

import vkshare as vks
from vkshare.errors import AbandonedError, RemoteLostError
from vkshare.remote.device import open_device

pytestmark = [pytest.mark.no_driver, pytest.mark.program, unhurried]


# ---- viewers --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("M6", "M17")
def test_viewers_that_are_killed_are_noticed_and_the_next_onedraws(stack: ExitStack) -> None:
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN, keepalive=KEEPALIVE, grace=GRACE))
    dice, counts = seeded(), list[Counter[str]]()
    for _ in range(rounds(300, 3)):
        with process(VIEWER, host.address, TOKEN) as (viewer, words):
            assert words == ["up"]
            devices = [host.open(WAIT, name=f"{i}") for i in range(3)]
            draws(devices[0])
            with working(devices):
                time.sleep(dice.uniform(0, 0.1))
                viewer.kill()
                for device in devices:
                    until_lost(device)
            for device in devices:
                device.close()
        keeps_its_files(counts)


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
        keeps_its_files(counts)
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
                draws(device)
            await_end(ends, counts)


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
