"""A compositor's picture can be captured at any time, from any thread."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import vkshare as vks

SIZE = (64, 48)


@pytest.mark.rule("R18")
def test_capture_works_while_frames_are_composited(device: Any, vks_adapter: Any) -> None:
    sender, descriptor = vks.pipe(device, *SIZE)
    with (
        sender,
        descriptor,
        vks.compositor.Compositor(lambda: vks.open(vks_adapter), vks.Headless(*SIZE)) as compositor,
    ):
        window = compositor.open_window(descriptor, is_opaque=True)
        stop = threading.Event()

        def send() -> None:
            for number in range(1 << 20):
                if stop.is_set():
                    return
                grey = number % 200 / 255
                with sender.frame(timeout=20) as frame:
                    device.submit(device.record().clear(frame.surface, (grey, grey, grey, 1)))

        thread = threading.Thread(target=send)
        thread.start()
        try:
            captured = 0
            while captured < 60:
                if window.statistics().shown:
                    pixels = compositor.capture()
                    assert (pixels == pixels[0, 0]).all(), "of one frame"
                    captured += 1
        finally:
            stop.set()
            thread.join()
        assert compositor.error is None
