"""Random schedules of several programs, against the same schedule on one device. Rules M2, M15."""

from __future__ import annotations

import multiprocessing
import random
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.remote_ends import WAIT, Ends
from support.run_volumes import rounds

import vkshare as vks
from vkshare.remote.device import open_device

pytestmark = [pytest.mark.no_driver, pytest.mark.slow]

SIZE = 40
SURFACES = 3


@dataclass(frozen=True)
class Step:
    """One program owns some surfaces, and draws into the first from the others. `keys` are those of their turns."""

    program: int
    surfaces: tuple[int, ...]
    keys: tuple[int, ...]
    seed: int


def schedule(programs: int, count: int, seed: int) -> list[Step]:
    dice, keys, found = random.Random(seed), [0] * SURFACES, []
    for _ in range(count):
        chosen = tuple(dice.sample(range(SURFACES), dice.choice([1, 1, 2, 3])))
        found.append(Step(dice.randrange(programs), chosen, tuple(keys[i] for i in chosen), dice.randrange(1 << 20)))
        for i in chosen:
            keys[i] += 1
    return found


def perform(device: vks.Device, surfaces: list[vks.Surface], steps: list[Step]) -> None:
    """A program's steps, each when its surfaces' keys are there."""
    for step in steps:
        used = [surfaces[i] for i in step.surfaces]
        for i in sorted(range(len(used)), key=lambda i: step.surfaces[i]):
            used[i].acquire(step.keys[i], WAIT)
        draw(device, used, random.Random(step.seed))
        for surface, key in zip(used, step.keys, strict=True):
            surface.release(key + 1)


def draw(device: vks.Device, used: list[vks.Surface], dice: random.Random) -> None:
    target, *sources = used
    colour = (dice.random(), dice.random(), dice.random(), 0.5 + dice.random() / 2)
    rect = (dice.randrange(30), dice.randrange(30), 10, 10)
    match dice.randrange(4):
        case 0:
            pixels = target.read()
            pixels[rect[1] : rect[1] + 5, rect[0] : rect[0] + 5] ^= 0x5A
            target.write(pixels)
        case 1:
            device.submit(device.record().fill_rect(target, rect, colour))
            device.submit(device.record().fill_rect(target, (5, 5, 3, 3), colour))
        case 2:
            triangle = np.array([[-0.9, -0.9, *colour], [0.9, -0.5, *colour], [0, dice.random(), *colour]], np.float32)
            device.submit(device.record().draw_triangles(target, triangle))
        case 3:
            target.write(np.random.default_rng(dice.randrange(99)).integers(0, 256, (SIZE, SIZE, 4), np.uint8))
    for source in sources:
        at = dice.randrange(-5, 20), dice.randrange(-5, 20)
        device.submit(device.record().composite(source, target, at, dice.random()))


def pictures(surfaces: list[vks.Surface], steps: list[Step]) -> list[np.ndarray]:
    """Returns the pixels of the surfaces after all steps."""
    found = []
    for i, surface in enumerate(surfaces):
        with surface.access(sum(i in step.surfaces for step in steps), 0, WAIT):
            found.append(surface.read())
    return found


def local_pictures(device: vks.Device, steps: list[Step]) -> list[np.ndarray]:
    with ExitStack() as opened:
        surfaces = [opened.enter_context(device.create_surface(SIZE, SIZE)) for _ in range(SURFACES)]
        perform(device, surfaces, steps)
        return pictures(surfaces, steps)


class Programs:
    """Remote devices, kept over examples."""

    def __init__(self, stack: ExitStack, device: vks.Device, count: int) -> None:
        self.ends = Ends(stack, device, delay=0.001, jitter=0.001)
        self.devices = [stack.enter_context(self.ends.open(f"program {i}")) for i in range(count)]

    def run(self, steps: list[Step], run_others: Callable[[list[vks.SurfaceDescriptor]], None]) -> list[np.ndarray]:
        """The first device makes the surfaces; run_others(descriptors) performs the steps."""
        with ExitStack() as opened:
            first = self.devices[0]
            surfaces = [opened.enter_context(first.create_surface(SIZE, SIZE)) for _ in range(SURFACES)]
            run_others([opened.enter_context(surface.export()) for surface in surfaces])
            return pictures(surfaces, steps)


def _perform_all(device: vks.Device, descriptors: list[vks.SurfaceDescriptor], steps: list[Step]) -> None:
    with ExitStack() as opened:
        perform(device, [opened.enter_context(device.open_surface(each)) for each in descriptors], steps)


@pytest.mark.rule("M2")
def test_threads_of_several_programs_draw_what_one_device_draws(stack: ExitStack, vks_device: vks.Device) -> None:
    programs = Programs(stack, vks_device, 3)

    @settings(max_examples=rounds(2000, 5), deadline=None)
    @given(seed=st.integers(0, 1 << 30))
    def check(seed: int) -> None:
        steps = schedule(3, 25, seed)

        def run_others(descriptors: list[vks.SurfaceDescriptor]) -> None:
            threads = [
                threading.Thread(
                    target=_perform_all, args=(device, descriptors, [step for step in steps if step.program == i])
                )
                for i, device in enumerate(programs.devices)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        seen, expected = programs.run(steps, run_others), local_pictures(vks_device, steps)
        assert all(np.array_equal(a, b) for a, b in zip(seen, expected, strict=True))

    check()


def _child(path: str, descriptors: list[vks.SurfaceDescriptor], steps: list[Step]) -> None:
    with open_device(path) as device:
        _perform_all(device, descriptors, steps)


@pytest.mark.rule("M2", "M15")
def test_programs_of_several_processes_draw_what_one_device_draws(stack: ExitStack, vks_device: vks.Device) -> None:
    programs = Programs(stack, vks_device, 1)
    for seed in range(rounds(100, 1)):
        steps = schedule(3, 40, seed)

        def run_others(descriptors: list[vks.SurfaceDescriptor], steps: list[Step] = steps) -> None:
            spawn = multiprocessing.get_context("spawn")
            children = [
                spawn.Process(
                    target=_child,
                    args=(str(programs.ends.host.path), descriptors, [step for step in steps if step.program == i]),
                )
                for i in range(3)
            ]
            for child in children:
                child.start()
            for child in children:
                child.join()
                assert child.exitcode == 0

        seen, expected = programs.run(steps, run_others), local_pictures(vks_device, steps)
        assert all(np.array_equal(a, b) for a, b in zip(seen, expected, strict=True))
