"""A program that shows twenty frames of every kind, while the fault layer makes one of its Vulkan calls fail.

It is an application that survives errors: it notes them, and calls again. What it demands: the next call works or
raises the same; SurfaceLostError goes with retarget(); close() ends soon; and afterwards nothing is alive, nothing was
used that Vulkan or our rules forbid, and the validation layer has nothing to say.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import vkshare as vks
from support.fault_layer import FaultLayer, Violation
from support.run_volumes import FULL

FRAMES = 20
PATIENCE = 20.0  # seconds that a whole run may take: as much as a second for close() and the rest for a slow machine
MEMORY = ("OUT_OF_HOST_MEMORY", "OUT_OF_DEVICE_MEMORY")
LOSABLE = (*MEMORY, "DEVICE_LOST")
SURFACE = (*MEMORY, "SURFACE_LOST")

# What each entry may say (Vulkan 1.3, "Return Codes" of each), by what the entries are about.
GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "surfaces": {
        "vkCreateHeadlessSurfaceEXT": MEMORY,
        "vkGetPhysicalDeviceSurfaceSupportKHR": SURFACE,
        "vkGetPhysicalDeviceSurfaceCapabilitiesKHR": SURFACE,
        "vkGetPhysicalDeviceSurfaceCapabilities2KHR": SURFACE,
        "vkGetPhysicalDeviceSurfaceFormatsKHR": SURFACE,
        "vkGetPhysicalDeviceSurfacePresentModesKHR": SURFACE,
    },
    "swapchains": {
        "vkCreateSwapchainKHR": (*LOSABLE, "SURFACE_LOST", "INITIALIZATION_FAILED"),
        "vkGetSwapchainImagesKHR": MEMORY,
        "vkCreateImageView": MEMORY,
    },
    "acquires": {
        "vkAcquireNextImageKHR": (*LOSABLE, "OUT_OF_DATE", "SURFACE_LOST", "SUBOPTIMAL", "TIMEOUT", "NOT_READY"),
    },
    "presents": {
        "vkQueuePresentKHR": (*LOSABLE, "OUT_OF_DATE", "SURFACE_LOST", "SUBOPTIMAL"),
    },
    "submits": {
        "vkQueueSubmit2": LOSABLE,
        "vkQueueWaitIdle": LOSABLE,
        "vkDeviceWaitIdle": LOSABLE,
        "vkWaitSemaphores": LOSABLE,
        "vkGetSemaphoreCounterValue": LOSABLE,
    },
    "fences": {
        "vkCreateFence": MEMORY,
        "vkResetFences": ("OUT_OF_DEVICE_MEMORY",),
        "vkGetFenceStatus": LOSABLE,
        "vkWaitForFences": LOSABLE,
        "vkCreateSemaphore": MEMORY,
    },
    "commands": {
        "vkCreateCommandPool": MEMORY,
        "vkResetCommandPool": ("OUT_OF_DEVICE_MEMORY",),
        "vkAllocateCommandBuffers": MEMORY,
        "vkResetCommandBuffer": ("OUT_OF_DEVICE_MEMORY",),
        "vkBeginCommandBuffer": MEMORY,
        "vkEndCommandBuffer": MEMORY,
    },
    "memory": {
        "vkAllocateMemory": MEMORY,
        "vkCreateBuffer": MEMORY,
        "vkCreateImage": MEMORY,
        "vkMapMemory": MEMORY,
        "vkBindBufferMemory2": MEMORY,
        "vkBindImageMemory2": MEMORY,
    },
}


ONLY_WHERE_SOMETHING_IS_LATE = ("vkWaitSemaphores", "vkWaitForFences")


@dataclass
class Run:
    """One run of the program, and what came of it."""

    layer: FaultLayer
    by_fences: bool
    entry: str = ""
    for_ever: bool = False
    swapchain: vks.Swapchain | None = None
    prepared: Any = None
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    closing: int = 1 << 62  # number of the event from which on a proof may be impossible
    failed_in_a_row: int = 0
    is_over: bool = False
    given_up: int = 0


def _create(run: Run, device: vks.Device) -> None:
    run.swapchain = device.create_swapchain(vks.Headless(16, 16), present_fences=run.by_fences)
    run.prepared = run.swapchain.prepare(lambda commands, view: commands.clear(view, (1, 0, 0, 1)))


def _prepared(run: Run, device: vks.Device) -> None:
    assert run.swapchain is not None
    run.swapchain.present_prepared(run.prepared)


def _drawn(run: Run, device: vks.Device) -> None:
    assert run.swapchain is not None
    with run.swapchain.frame(timeout=5) as frame:
        device.submit(device.record().clear(frame.view, (0, 1, 0, 1)))
        device.submit(device.record().fill_rect(frame.view, (1, 1, 3, 3), (0, 1, 1, 1)))


def _untouched(run: Run, device: vks.Device) -> None:
    assert run.swapchain is not None
    run.swapchain.present(run.swapchain.acquire(5))


def _dropped(run: Run, device: vks.Device) -> None:
    assert run.swapchain is not None
    frame = run.swapchain.acquire(5)
    try:
        device.submit(device.record().clear(frame.view, (0, 0, 1, 1)))
    finally:
        frame.close()


def _kept(run: Run, device: vks.Device) -> None:
    """A frame that is out when the swapchain is replaced."""
    assert run.swapchain is not None
    frame = run.swapchain.acquire(5)
    device.submit(device.record().clear(frame.view, (0, 0, 1, 1)))


def _resized(width: int, height: int) -> Callable[[Run, vks.Device], None]:
    def resize(run: Run, device: vks.Device) -> None:
        assert run.swapchain is not None
        run.swapchain.resize(width, height)

    return resize


def _mode(run: Run, device: vks.Device) -> None:
    assert run.swapchain is not None
    try:
        run.swapchain.present_mode = "mailbox"
    except vks.UnsupportedError:
        pass


def _program() -> Iterator[Callable[[Run, vks.Device], None]]:
    kinds = (_prepared, _drawn, _untouched, _prepared, _dropped)
    for turn in range(FRAMES):
        if turn == 7:
            yield _resized(20, 12)
        if turn == 11:
            yield _mode
        if turn == 14:
            yield _kept
            yield _resized(9, 30)
        yield kinds[turn % len(kinds)]


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _names_the_call(run: Run, error: Exception) -> bool:
    if not isinstance(error, vks.VulkanError) or not run.entry:
        return True
    if isinstance(error, (vks.DeviceLostError, vks.SurfaceLostError)):
        return True  # later calls tell what they found
    return run.entry in str(error)


def _try(run: Run, device: vks.Device, step: Callable[[Run, vks.Device], None]) -> Exception | None:
    try:
        step(run, device)
    except (vks.VkshareError, MemoryError, TimeoutError) as error:
        error.__traceback__ = None  # it would keep the frame
        run.errors.append(_told(error))
        if isinstance(error, (vks.ClosedError, vks.InvalidCallError)):
            run.wrong.append(f"{step.__name__} says {_told(error)}")
        if not _names_the_call(run, error):
            run.wrong.append(f"{_told(error)} does not name {run.entry}")
        return error
    return None


def _step(run: Run, device: vks.Device, step: Callable[[Run, vks.Device], None]) -> None:
    error = _try(run, device, step)
    if error is None:
        run.failed_in_a_row = 0
        return
    run.failed_in_a_row += 1
    again = _try(run, device, step)
    if isinstance(error, vks.SurfaceLostError) and run.swapchain is not None:
        if again is not None and not isinstance(again, vks.SurfaceLostError):
            run.wrong.append(f"after {_told(error)} came {_told(again)}")
        run.closing = min(run.closing, _now(run))  # of what was presented there nothing will ever be told
        again = _try(run, device, _retarget) or _try(run, device, step)
    if isinstance(error, vks.DeviceLostError):
        run.is_over = True
    if again is not None and (not run.for_ever and not run.is_over):
        run.wrong.append(f"{step.__name__}: after {_told(error)} the next call says {_told(again)}")
    elif again is not None and type(again) is not type(error):
        run.wrong.append(f"{step.__name__}: after {_told(error)} for ever comes {_told(again)}")
    if run.swapchain is None or run.failed_in_a_row > 4:
        run.is_over = True


def _retarget(run: Run, device: vks.Device) -> None:
    assert run.swapchain is not None
    run.swapchain.retarget(vks.Headless(18, 14))


def _now(run: Run) -> int:
    events = run.layer.events()
    return events[-1].number + 1 if events else 0


def _end(run: Run, device: vks.Device) -> None:
    run.closing = min(run.closing, _now(run))
    if run.swapchain is not None:
        run.given_up = run.swapchain.statistics().given_up
    for closing in (run.swapchain, device):
        if closing is None:
            continue
        started = time.monotonic()
        try:
            closing.close()
        except (vks.VkshareError, MemoryError, TimeoutError) as error:
            error.__traceback__ = None
            run.errors.append(f"close: {_told(error)}")
            closing.close()
        if not closing.is_closed:
            run.wrong.append(f"{type(closing).__name__} is not closed after close()")
        if time.monotonic() - started > 8:
            run.wrong.append(f"close() of {type(closing).__name__} took {time.monotonic() - started:.1f} s")
    run.swapchain = run.prepared = None


def _is_excused(run: Run, violation: Violation) -> bool:
    """By acquires nothing proves that the last presents are over, where no image can be had any more (the window is
    gone or has changed, or the proof itself failed): then they end with our own work, and are never used again. Such
    swapchains are counted."""
    no_proof = violation.event >= run.closing or run.given_up > 0
    return not run.by_fences and no_proof and " is destroyed while " in violation.text


def _hides_fences(entry: str, for_ever: bool) -> bool:
    """Whether no fence is ever seen signalled: those are leaked, for a driver may write to them still (A16)."""
    return for_ever and entry == "vkGetFenceStatus"


def _is_expected(message: str, entry: str, result: str, for_ever: bool) -> bool:
    """The validation layer is below the faults: it knows neither that the device is lost nor of fences leaked."""
    if result == "DEVICE_LOST" and "VUID-vkDestroyFence-fence-01120" in message:
        return True
    return _hides_fences(entry, for_ever) and "VUID-vkDestroyDevice-device-00378" in message


def one_run(layer: FaultLayer, by_fences: bool, entry: str = "", for_ever: bool = False, **rule: Any) -> Run:
    """The whole program, with a rule for one entry. The device is opened before the rule begins."""
    run = Run(layer, by_fences, entry, for_ever)
    layer.reset()
    started, before = time.monotonic(), {o.serial for o in layer.objects()}
    device = vks.open(backend="vulkan")
    layer.reset()
    if entry:
        layer.fail(entry, count=0 if for_ever else 1, **rule)
    _step(run, device, _create)
    for step in _program():
        if run.is_over:
            break
        _step(run, device, step)
    _end(run, device)
    del device
    gc.collect()
    run.wrong += [f"violation: {v.text} [{v.name}]" for v in layer.violations() if not _is_excused(run, v)]
    kept = ("instance", "fence") if _hides_fences(entry, for_ever) else ("instance",)
    left = [f"{o.type} {o.name}".rstrip() for o in layer.objects() if o.serial not in before and o.type not in kept]
    if left:
        run.wrong.append(f"alive after close: {', '.join(left)}")
    if time.monotonic() - started > PATIENCE:
        run.wrong.append(f"it took {time.monotonic() - started:.1f} s")
    return run


class Messages:
    """The validation layer's complaints, run by run."""

    def __init__(self) -> None:
        self._collector: Any = None
        if os.environ.get("VKSHARE_VALIDATION", "") not in ("", "0"):
            from vkshare.backends import vulkan
            from vkshare.testing.validation import Collector

            self._collector = Collector(vulkan.validation_layer_version() or "")
            vulkan.add_message_sink(self._collector)

    def take(self) -> list[str]:
        """Those since the last time."""
        if self._collector is None:
            return []
        return list(dict.fromkeys(f"validation: {str(message)[:300]}" for message in self._collector.take()))


def chosen(calls: int, everything: bool, few: bool = False) -> list[int]:
    """First, middle and last of so many calls; or all. `make test`, and the second driver, confirm with two of them."""
    if everything:
        return list(range(1, calls + 1))
    if few or not FULL or os.environ.get("VKSHARE_TEST_DRIVER", "") == "swiftshader":
        return sorted({n for n in (1, (calls + 1) // 2) if 1 <= n <= calls})
    return sorted({n for n in (1, (calls + 1) // 2, calls) if 1 <= n <= calls})


def fail_each(layer: FaultLayer, by_fences: bool, group: str, everything: bool) -> tuple[list[str], dict[str, int]]:
    """What went wrong in all the runs of a group of entries, and how many runs met each entry's fault."""
    messages = Messages()
    clean = one_run(layer, by_fences)
    calls = layer.calls()
    wrong = [f"without a fault: {text}" for text in (*clean.errors, *clean.wrong, *messages.take())]
    met: dict[str, int] = {}
    for entry, results in GROUPS[group].items():
        for result in results:
            # The out-of-memory results take one way through the code: the second of them confirms with two calls.
            few = result == MEMORY[1] and MEMORY[0] in results
            cases = [(n, False) for n in chosen(calls.get(entry, 0), everything, few=few)]
            if result not in (
                "TIMEOUT",
                "NOT_READY",
                "OUT_OF_DEVICE_MEMORY",
            ):  # to wait for ever is right after the first
                cases += [(n, True) for n in {(calls.get(entry, 0) + 1) // 2} if n]
            for nth, for_ever in cases:
                print(entry, result, nth, for_ever, flush=True)
                run = one_run(layer, by_fences, entry, for_ever, nth=nth, result=result)
                case = f"{entry} {result} at {nth}{' for ever' if for_ever else ''}"
                reported = [text for text in messages.take() if not _is_expected(text, entry, result, for_ever)]
                wrong += [f"{case}: {text}" for text in (*run.wrong, *reported)]
                if layer.failed().get(entry, 0):
                    met[f"{entry} {result}"] = met.get(f"{entry} {result}", 0) + 1
    certain = {entry for entry in calls if everything or entry not in ONLY_WHERE_SOMETHING_IS_LATE}
    absent = [f"{entry} {result}" for entry, results in GROUPS[group].items() for result in results if entry in certain
              and f"{entry} {result}" not in met]  # fmt: skip
    return wrong + [f"{case}: no run met it" for case in absent], met
