"""What the fault layer has recorded of a swapchain's objects, read as the rules name it."""

from __future__ import annotations

from collections import defaultdict

import vkshare as vks
from support.fault_layer import Event, FaultLayer


def draw(swapchain: vks.Swapchain, frames: int, timeout: float = 20) -> None:
    """So many frames."""
    for turn in range(frames):
        with swapchain.frame(timeout=timeout) as frame:
            if not frame.is_hidden:
                colour = (turn % 256 / 255, 0, 0, 1)
                swapchain.device.submit(swapchain.device.record().clear(frame.view, colour))


def storm(swapchain: vks.Swapchain, resizes: int, frames: int) -> None:
    """Frames and resizes in turn."""
    for turn in range(resizes):
        swapchain.resize(16 + turn % 50, 20)
        draw(swapchain, frames)


def views_after_their_swapchain(events: list[Event]) -> list[str]:
    """Image views that outlived the swapchain that was the newest when they were made."""
    newest, of = 0, defaultdict(set)
    wrong = []
    for event in events:
        if event.what == "create" and event.type == "swapchain":
            newest = event.serial
        elif event.what == "create" and event.type == "image_view" and newest:
            of[newest].add(event.serial)
        elif event.what == "destroy" and event.type == "image_view":
            for views in of.values():
                views.discard(event.serial)
        elif event.what == "destroy" and event.type == "swapchain" and of[event.serial]:
            wrong.append(f"swapchain {event.serial} went before {len(of[event.serial])} views")
    return wrong


def fences_used_unreset(events: list[Event]) -> list[str]:
    """Fences that were given to a call again without vkResetFences in between (A8)."""
    used: set[int] = set()
    wrong = []
    for event in events:
        if event.what == "fence":
            if event.serial in used:
                wrong.append(f"fence {event.serial} at event {event.number}")
            used.add(event.serial)
        elif event.what == "reset":
            used.discard(event.serial)
    return wrong


def reused_before_the_next_acquire(events: list[Event]) -> tuple[list[str], int]:
    """Semaphores of presents that were signalled anew before their image was acquired again and a submission had waited
    for that acquire (A1); and how many were used again at all."""
    waiting: dict[int, tuple[int, int]] = {}  # semaphore: (swapchain, image) of the present
    groups: dict[int, tuple[int, int]] = {}
    by_acquire: dict[int, tuple[int, int]] = {}  # semaphore of an acquire: its image
    proven: set[int] = set()
    wrong, reused = [], 0
    for event in events:
        if event.what in ("present", "acquire"):
            groups[event.group] = (event.serial, event.value)
        elif event.what == "wait" and event.group in groups:
            waiting[event.serial] = groups[event.group]
            proven.discard(event.serial)
        elif event.what == "wait" and event.serial in by_acquire:
            place = by_acquire.pop(event.serial)
            proven |= {semaphore for semaphore, at in waiting.items() if at == place}
        elif event.what == "signal":
            if event.group in groups:
                by_acquire[event.serial] = groups[event.group]
            if event.serial in waiting:
                reused += 1
                if event.serial not in proven:
                    wrong.append(f"semaphore {event.name} at event {event.number}")
                del waiting[event.serial]
    return wrong, reused


def left(layer: FaultLayer) -> dict[str, int]:
    """What is alive beside instances."""
    return {type: n for type, n in layer.live().items() if type != "instance"}
