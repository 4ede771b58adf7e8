"""The pipeline demo: three devices, each in a thread of its own, pass surfaces round three queues, with metadata.

The painter draws, the letterer writes over it, the viewer shows it and gives the surface back. The
order of their GPU work is the GPU's; a CPU waits for a surface, and where it writes into one, for
the drawing below.
"""

from __future__ import annotations

import statistics
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import vkshare
from vkshare.core.queue_ends import QueueFrame
from vkshare.demos.inspection import Inspector
from vkshare.demos.layout import Layout
from vkshare.demos.lettering import Facts, Writer
from vkshare.demos.painter import Painter
from vkshare.demos.stage import Stage, StageOptions
from vkshare.errors import ClosedError
from vkshare.util.closing import Scoped

_COUNT = 4  # surfaces: one for each stage, and one between
_NOTE = struct.Struct("<IQQ")  # the frame's number; when it was painted, when it was lettered: time.monotonic_ns()
_RATE, _TURN = 60.0, 8.0  # frames a second of the scene's time, and seconds of the cube's revolution
_CHECKED = 30  # every so many frames are read back
_PATIENCE = 60.0  # seconds for what was submitted to run


def run(shown: Stage, options: StageOptions) -> dict[str, Any]:
    """All frames, or until the user ends it; returns the contents of `vkshare demo pipeline --json`.

    The viewer is the calling thread, and its device the stage's.
    """
    layout = Layout.at_least(options.width, options.height)
    adapter = shown.device.adapter
    with ExitStack() as stack:
        painter, letterer = (
            stack.enter_context(vkshare.open(adapter, name=f"demo {role}")) for role in ("painter", "letterer")
        )
        root = stack.enter_context(vkshare.SurfaceQueue(painter, layout.width, layout.height, count=_COUNT))
        painted, lettered = (stack.enter_context(root.clone(_NOTE.size)) for _ in range(2))
        what = layout, options.frames
        painting = stack.enter_context(_Painting(painter, root, painted, *what))
        lettering = stack.enter_context(_Lettering(letterer, painted, lettered, *what))
        viewing = stack.enter_context(_Viewing(shown.device, lettered, root, *what))
        stages = (painting, lettering, viewing)
        start = time.perf_counter()
        with _working(stages):
            frames = shown.play(viewing.show, options.frames)
        for device in (painter, letterer, shown.device):
            device.wait_idle(_PATIENCE)  # closing would cancel what still waits for another's work
        return {
            "adapter": adapter.name,
            "width": layout.width,  # of the surfaces
            "height": layout.height,
            "surfaces": _COUNT,
            "frames": frames,  # that were shown
            "seconds": time.perf_counter() - start,
            # Seconds from the painter's enqueue until the viewer had the surface.
            "latency": statistics.median(viewing.latencies or [0.0]),
            "most_latency": max(viewing.latencies, default=0.0),
            "checked": viewing.checked,  # frames that were read back
            "wrong": viewing.wrong,  # what was not as it must be
            "stages": [stage.done() for stage in stages],
            "ok": not viewing.wrong,
        }


# ---- the stages ------------------------------------------------------------------------------------------------------


class _Stage(Scoped):
    """One device, with the end of the queue that it takes from and of the one that it puts into."""

    name = ""

    def __init__(
        self,
        device: vkshare.Device,
        source: vkshare.SurfaceQueue,
        target: vkshare.SurfaceQueue,
        layout: Layout,
        frames: int | None,
    ) -> None:
        self._device = device
        self._layout = layout
        self._limit = frames
        self._frames = 0
        self._waits = 0
        self._waited = 0.0
        self._metadata = 0
        self._read = 0  # bytes copied to be checked
        with ExitStack() as opening:
            self.source = opening.enter_context(source.open_consumer(device))
            self.target = opening.enter_context(target.open_producer(device))
            self._prepare(opening)
            self._open = opening.pop_all()
        self._before = device.statistics().copied_bytes

    def _prepare(self, opening: ExitStack) -> None:
        """Makes what it needs besides; `opening` closes that with the stage."""
        raise NotImplementedError

    @contextmanager
    def frame(self) -> Iterator[QueueFrame]:
        """The next surface. A surface that the body does not enqueue is passed on without metadata."""
        reported, start = self.source.statistics(), time.perf_counter()
        with self.source.frame(into=self.target) as frame:
            if reported.committed == reported.dequeued:
                self._waits += 1
                self._waited += time.perf_counter() - start
            self._frames += 1
            self._metadata += len(frame.metadata)
            yield frame

    def work(self) -> None:
        """All its frames, or until it is stopped: ClosedError."""
        raise NotImplementedError

    def done(self) -> dict[str, Any]:
        """Its counters."""
        return {
            "stage": self.name,
            "frames": self._frames,
            "waits": self._waits,  # frames for which no surface was there yet
            "waited": self._waited,  # seconds, in all
            "metadata": self._metadata,  # bytes that came with its frames
            # Bytes, by its device's copy paths; without the viewer's checks.
            "copied": self._device.statistics().copied_bytes - self._before - self._read,
        }

    def stop(self) -> None:
        """Ends the waits of this stage, and for it, with ClosedError. Idempotent."""
        self.source.close()
        self.target.close()

    def close(self) -> None:
        """Idempotent."""
        self._open.close()


class _Painting(_Stage):
    """Draws the scene."""

    name = "painter"

    def _prepare(self, opening: ExitStack) -> None:
        self._painter = opening.enter_context(Painter(self._device, self._layout))

    def work(self) -> None:
        for number in count() if self._limit is None else range(self._limit):
            with self.frame() as frame:
                commands = self._painter.record(frame.surface, number, number / _RATE / _TURN % 1)
                self._device.submit(commands)
                self.target.enqueue(frame.surface, _NOTE.pack(number, time.monotonic_ns(), 0), wait="gpu")


class _Lettering(_Stage):
    """Writes over it: into the surface's own memory where the CPU sees that."""

    name = "letterer"

    def _prepare(self, opening: ExitStack) -> None:
        copies = not self.source.surfaces[0].is_host_visible
        written = "Pillow writes this, then uploads it" if copies else "Pillow writes into the same memory"
        lines = (("one", "paints the scene"), ("two", written), ("three", "shows it and gives it back"))
        facts = Facts(self._device.adapter.name, self._limit, "Three devices, three queues.", lines)
        self._writer = opening.enter_context(Writer(self._device, self._layout, facts, copies))

    def work(self) -> None:
        while True:
            with self.frame() as frame:
                number, painted, _ = _NOTE.unpack(frame.metadata)
                self._writer.write(frame.view, number)
                self.target.enqueue(frame.surface, _NOTE.pack(number, painted, time.monotonic_ns()), wait="gpu")


class _Viewing(_Stage):
    """Shows it, and looks whether it is what its metadata says."""

    name = "viewer"

    def _prepare(self, opening: ExitStack) -> None:
        self._inspector = Inspector(self._layout)
        self.latencies: list[float] = []
        self.checked = 0
        self.wrong: list[str] = []

    def show(self, frame: vkshare.Frame, number: int, seconds: float) -> None:
        """For Stage.play()."""
        with self.frame() as (surface, metadata):
            if not frame.is_hidden:
                self._device.submit(self._device.record().blit(surface, frame.view))
            reported, painted, lettered = _NOTE.unpack(metadata)
            now = time.monotonic_ns()
            self.latencies.append((now - painted) * 1e-9)
            if reported != number or not painted <= lettered <= now:
                self.wrong.append(f"frame {number} came with the metadata of frame {reported}")
            if number % _CHECKED == 0 or number + 1 == self._limit:
                self._check(number, surface)

    def _check(self, number: int, surface: vkshare.Surface) -> None:
        before = self._device.statistics().copied_bytes
        self.wrong += [f"frame {number}: {fault}" for fault in self._inspector.faults(number, surface.read())]
        self._read += self._device.statistics().copied_bytes - before
        self.checked += 1


# ---- the threads -----------------------------------------------------------------------------------------------------


@contextmanager
def _working(stages: tuple[_Stage, ...]) -> Iterator[None]:
    """Run all but the last, which is the body's, and stop them after the body.

    An error of one of them replaces the body's error, which follows from it.
    """
    failed: list[Exception] = []

    def work(stage: _Stage) -> None:
        try:
            stage.work()
        except Exception as error:
            stage.stop()
            if not isinstance(error, ClosedError):  # the stage was stopped, or one beside it
                failed.append(error)

    threads = [
        threading.Thread(target=work, args=(each,), name=f"vkshare {each.name}", daemon=True) for each in stages[:-1]
    ]
    for thread in threads:
        thread.start()
    try:
        try:
            yield
        finally:
            for stage in stages:
                stage.stop()
            for thread in threads:
                thread.join()
    except Exception:
        if not failed:
            raise
    if failed:
        raise failed[0]
