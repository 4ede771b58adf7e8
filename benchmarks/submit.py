"""What does device.submit() cost over calling vkQueueSubmit2 from C?"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import vkshare
from benchmarks import real_submit
from benchmarks.measure import FIRST, Samples, Spread, Timed, counted, lasting
from benchmarks.nothing import COMMAND_BUFFER, QUEUE, NothingDriver
from benchmarks.plan import Plan

_BURST = 100  # calls; some 20 us, a frame's worth and more
_MOST = 60e-9, 60e-9, 150e-9
_NOTE = "bursts of 100 calls; a burst in which the switch interval ended has the other thread's 5 ms in it (MAX)"


def run(plan: Plan) -> None:
    """On the driver that does nothing: quiet, then beside a thread that spins; then on the real drivers."""
    with plan.noting("submit is measured on a driver in C"):
        driver = NothingDriver()
        with driver.open() as device:
            ways, theirs = loops(device, device.create_fence()), _theirs(driver)
            for _ in plan.alone():
                for (what, loop), their, most in zip(ways.items(), theirs, _MOST, strict=True):
                    plan.calls(what, {"ours": loop, **their}, most=most, over_c=True)
                for what, loop in ways.items():
                    _beside_a_spinning_thread(plan, what, loop)
        real_submit.run(plan)


def loops(device: vkshare.Device, fence: vkshare.Fence) -> dict[str, Timed]:
    """Ours: without a fence, with its next value, and with the value given."""
    loop = partial(counted, device=device, commands=device.record(), fence=fence)
    return {
        "submit(c)": loop("device.submit(commands)"),
        "submit(c, signals=f)": loop("device.submit(commands, signals=fence)"),
        "submit(c, signals=((f, v+1),))": loop(
            "device.submit(commands, signals=((fence, value),))", "fence.queued_value + 1"
        ),
    }


def _theirs(driver: NothingDriver) -> list[dict[str, Timed]]:
    """C signals as many semaphores as ours does: the fence, and the queue's own timeline."""
    semaphores = [driver.semaphore(), driver.semaphore()]
    values = iter(range(1, 2**62, 2**32))

    def c(n_signals: int) -> Timed:
        return lambda n: driver.time_submits(semaphores[:n_signals], next(values), n)

    return [{"c": c(1), **_pypi(driver)}, {"c": c(2)}, {"c": c(2)}]


def _pypi(driver: NothingDriver) -> dict[str, Timed]:
    """The PyPI package `vulkan` as people call it: with structures made for the call, and with ones
    made before, of which only the value is written. None without libvulkan.
    """
    try:
        import vulkan
    except (ImportError, OSError):  # the latter without libvulkan
        return {}
    # The package's own wrapper, made for a function pointer as it makes those of extensions.
    pointer = vulkan.ffi.cast("PFN_vkQueueSubmit2", driver.function("vkQueueSubmit2"))
    submit = vulkan._vulkan._wrap_vkQueueSubmit2(pointer)
    semaphore = driver.semaphore()
    kept = _infos(vulkan, semaphore, FIRST)
    calls: dict[str, Any] = {"submit": submit, "queue": vulkan.ffi.cast("VkQueue", QUEUE)}
    anew = "kept = infos(vulkan, semaphore, value); submit(queue, 1, kept[0], None)"
    made = counted(anew, **calls, infos=_infos, vulkan=vulkan, semaphore=semaphore)
    only_the_value = "signal.value = value; submit(queue, 1, info, None)"
    prebuilt = counted(only_the_value, **calls, info=kept[0], signal=kept[1], kept=kept)
    return {"PyPI vulkan": made, "PyPI vulkan, prebuilt": prebuilt}


def _infos(vulkan: Any, semaphore: int, value: int) -> tuple[Any, ...]:
    """The VkSubmitInfo2 first; the rest must live as long as it does, which the package does not see to."""
    cast = vulkan.ffi.cast
    signal = vulkan.VkSemaphoreSubmitInfo(
        semaphore=cast("VkSemaphore", semaphore), value=value, stageMask=vulkan.VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT
    )
    buffer = vulkan.VkCommandBufferSubmitInfo(commandBuffer=cast("VkCommandBuffer", COMMAND_BUFFER))
    info = vulkan.VkSubmitInfo2(
        commandBufferInfoCount=1, pCommandBufferInfos=buffer, signalSemaphoreInfoCount=1, pSignalSemaphoreInfos=signal
    )
    return info, signal, buffer


# ---- beside a thread that spins in Python -------------------------------------------------------------------------


def _beside_a_spinning_thread(plan: Plan, what: str, loop: Timed) -> None:
    """Bursts of calls: giving the GIL away in each would mean to wait a switch interval (5 ms) for it every time."""
    plan.progress(f"{what}, a thread spins")
    alone: Samples = []
    busy: Samples = []
    for _ in lasting(plan.seconds):
        alone += _bursts(loop)
        with _spinning():
            busy += _bursts(loop)
    quiet = Spread.of(alone)
    figure = Spread.of([sample / quiet.median for sample in busy])
    compared: dict[str, Any] = {"against": "quiet", "others": {"quiet": quiet}, "note": _NOTE}
    plan.ratio(f"{what}, a thread spins", figure, Spread.of(busy), most=2.0, **compared)


def _bursts(timed: Timed) -> Samples:
    """Bursts of about 20 ms: four switch intervals."""
    return [timed(_BURST) / _BURST for _ in lasting(20e-3, least=5)]


@contextlib.contextmanager
def _spinning() -> Iterator[None]:
    stop = False

    def spin() -> None:
        while not stop:
            pass

    thread = threading.Thread(target=spin, name="spin", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop = True
        thread.join()
