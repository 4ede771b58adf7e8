"""The video demo: a process decodes a clip, another draws a scene, and this one shows both in one window.

The frames come through pipes, in planes as the decoder has them. Text is put over the video where the
window draws it. Every so many frames the squares in the video are read, and compared with the number
that came beside the frame.
"""

from __future__ import annotations

import socket
import tempfile
import time
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw

import vkshare
from vkshare import Color, CommandList, Device, QueueDescriptor, Surface, View
from vkshare.demos import process, video_parts
from vkshare.demos.layout import BITS, Rect
from vkshare.demos.lettering import FAINT, PARTY_COLOURS, SOFT, WHITE, Layer, write
from vkshare.demos.process import Child, DemoError
from vkshare.demos.stage import Stage, StageOptions
from vkshare.demos.video_parts import CELL, CLIP_FRAMES, CLIP_RATE, CLIP_SIZE, MARK, NOTE, Parts
from vkshare.errors import AbandonedError, AcquireTimeout, ClosedError
from vkshare.util.closing import Scoped

_CHECKED = 15  # every so many frames of the video are read back
_PATIENCE = 60.0  # seconds until both processes have sent a frame
_AROUND = (0.035, 0.04, 0.11, 1.0)
_RELABELLED = 0.25  # seconds: numbers that change faster cannot be read


class Places(NamedTuple):
    """Where things are in the window, (x, y, width, height) in pixels."""

    scene: Rect
    video: Rect
    title: Rect
    live: Rect


def places(width: int, height: int) -> Places:
    """The scene on the left, the video on the right, text over the video."""
    gap = max(2, width // 80)
    half = (width - 3 * gap) // 2
    scale = min(half / CLIP_SIZE[0], (height - 2 * gap) / CLIP_SIZE[1])
    size = int(CLIP_SIZE[0] * scale), int(CLIP_SIZE[1] * scale)
    left = 2 * gap + half + (half - size[0]) // 2
    top = (height - size[1]) // 2
    line = max(12, size[1] // 5)
    inside = left + gap, size[0] - 2 * gap
    return Places(
        (gap, gap, half, height - 2 * gap),
        (left, top, *size),
        (inside[0], top + gap, inside[1], 2 * line),
        (inside[0], top + size[1] - line - gap, inside[1], line),
    )


def run(stage: Stage, options: StageOptions) -> dict[str, Any]:
    """All frames, or until the user ends it; returns the contents of `vkshare demo video --json`.

    Raises
    ------
    DemoError
        One of the two other processes failed, or died.
    """
    where = places(options.width, options.height)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="vkshare-demo-"))
        parts = Parts(stage.device.backend, stage.device.adapter.name, *where.scene[2:], folder)
        children = _start(parts, stack)
        scene, video = (stack.enter_context(_Newest(stage.device, child)) for child in children)
        with stack.enter_context(_Showing(stage, where, scene, video, children)) as showing:
            start = time.monotonic()
            frames = stage.play(showing.draw, options.frames)
            seconds = time.monotonic() - start
            return showing.report(frames, seconds)


def _start(parts: Parts, stack: ExitStack) -> list[tuple[Child, socket.socket]]:
    """The two processes, each with the socket that its pipe comes through. `stack` ends them."""
    children: list[Child] = []
    stack.callback(process.end, children)
    found = []
    for role in video_parts.ROLES:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.enter_context(ours)
        with theirs:
            given = parts, role, theirs.fileno()
            children.append(Child.start(role, "vkshare.demos.video_parts", *given, fds=(theirs.fileno(),)))
        found.append((children[-1], ours))
    return found


class _Newest(Scoped):
    """The newest frame of a process's pipe, which is kept until the next one is there."""

    def __init__(self, device: Device, child: tuple[Child, socket.socket]) -> None:
        self.child, link = child
        link.settimeout(_PATIENCE)
        try:
            with QueueDescriptor.recv(link, _PATIENCE) as descriptor:
                self._receiver = vkshare.open_receiver(device, descriptor)
        except (OSError, EOFError, vkshare.VkshareError) as error:
            self.child.wait(1)
            self.child.read()
            raise DemoError(self.child.obituary() if self.child.has_failed else str(error)) from error
        self.surface: Surface | None = None
        self.metadata = b""
        self.frames = 0
        self._held = ExitStack()

    def take(self, timeout: float = 0) -> bool:
        """Whether a newer frame has come."""
        before, self._held = self._held, ExitStack()
        try:
            frame = self._held.enter_context(self._receiver.frame(timeout, latest=True))
        except (AcquireTimeout, AbandonedError):
            self._held = before
            return False
        except ClosedError:
            self._held = before
            self.child.wait(1)
            raise DemoError(self.child.obituary()) from None
        self.surface, self.metadata = frame.surface, frame.metadata
        before.close()  # behind the work that was submitted on it
        self.frames += 1
        return True

    def close(self) -> None:
        self._held.close()
        self._receiver.close()


class _Showing(Scoped):
    """Draws both, and the text."""

    def __init__(self, stage: Stage, where: Places, scene: _Newest, video: _Newest, children: list[Any]) -> None:
        self._device, self._where = stage.device, where
        self._pause = 0.0 if stage.window else 1 / CLIP_RATE  # without a window nothing else keeps the clip's pace
        self._scene, self._video = scene, video
        self._adapter = stage.device.adapter.name
        with ExitStack() as opening:
            self._check = opening.enter_context(stage.device.create_surface(*CLIP_SIZE, "rgba8unorm"))
            self._check.acquire(0)
            self._title = opening.enter_context(Layer(stage.device, where.title))
            self._live = opening.enter_context(Layer(stage.device, where.live))
            for each in (scene, video):
                each.take(_PATIENCE)
                if each.surface is None:
                    raise DemoError(f"the {each.child.name} process has sent no frame in {_PATIENCE:g} s")
            self._title.upload(self._write_title)
            self._open = opening.pop_all()
        self._labelled = -np.inf
        self.checked = 0
        self.wrong: list[str] = []
        self._look()

    def draw(self, frame: vkshare.Frame, number: int, seconds: float) -> None:
        """For Stage.play()."""
        self._scene.take()
        if self._video.take(self._pause) and self._video.frames % _CHECKED == 1:
            self._look()
        if frame.is_hidden:
            return
        now = time.monotonic()
        if now - self._labelled > _RELABELLED:
            self._labelled = now
            self._live.upload(self._write_live)
        commands = self._device.record()
        self._record(commands, frame.view)
        self._device.submit(commands)

    def _record(self, commands: CommandList, target: View) -> None:
        scene, video = self._scene.surface, self._video.surface
        assert scene is not None
        assert video is not None
        commands.clear(target, _AROUND)
        commands.blit(scene, target, target_rect=self._where.scene)
        commands.blit(video, target, target_rect=self._where.video)
        self._title.record(commands, target)
        self._live.record(commands, target)

    def _look(self) -> None:
        """Compares the squares in the video with the number beside the frame."""
        video = self._video.surface
        assert video is not None
        self._device.submit(self._device.record().blit(video, self._check))
        told, seen = NOTE.unpack(self._video.metadata)[0], read_squares(self._check.read())
        self.checked += 1
        if seen != told % CLIP_FRAMES:
            self.wrong.append(f"frame {told} of the video shows the squares of {seen}")

    # ---- text ----------------------------------------------------------------------------------------------------

    def _write_title(self, image: Image.Image) -> None:
        draw, unit = ImageDraw.Draw(image), image.height / 2
        video = self._video.surface
        assert video is not None
        facts = f"{video.format} in planes, {_short(video.color)}"
        write(draw, (0, round(0.8 * unit)), "vkshare video", round(0.7 * unit), WHITE, "ls")
        write(draw, (0, round(1.3 * unit)), f"from another process: {facts}", round(0.26 * unit), SOFT, "ls")
        write(draw, (0, round(1.7 * unit)), self._adapter, round(0.26 * unit), FAINT, "ls")

    def _write_live(self, image: Image.Image) -> None:
        draw, height = ImageDraw.Draw(image), image.height
        number, shown, late, dropped = NOTE.unpack(self._video.metadata)
        time_of = f"{number % CLIP_FRAMES / CLIP_RATE:.2f} s"
        write(draw, (0, round(0.8 * height)), time_of, round(0.55 * height), PARTY_COLOURS[0], "ls")
        counts = f"{shown} shown, {late} late, {dropped} dropped"
        write(draw, (image.width, round(0.8 * height)), counts, round(0.32 * height), SOFT, "rs")

    def report(self, frames: int, seconds: float) -> dict[str, Any]:
        """The contents of `vkshare demo video --json`, with the last frame checked too."""
        self._look()
        video = self._video.surface
        assert video is not None
        _, shown, late, dropped = NOTE.unpack(self._video.metadata)
        return {
            "adapter": self._adapter,
            "frames": frames,  # of the window
            "seconds": seconds,
            "scene_frames": self._scene.frames,  # that the window took
            "video_frames": self._video.frames,
            "video_format": video.format,
            "video_color": str(video.color),
            "shown": shown,  # by the decoder's player
            "late": late,
            "dropped": dropped,
            "checked": self.checked,  # frames of the video that were read back
            "wrong": self.wrong,
            "ok": not self.wrong and self.checked > 0,
        }

    def close(self) -> None:
        self._open.close()


def read_squares(pixels: Any) -> int:
    """The number in the squares of the clip, by their brightness; the video is lossy."""
    x, y = MARK
    row = pixels[y + CELL // 2, x + CELL // 2 : x + BITS * CELL : CELL, :3].astype(int).mean(1)
    return int((row > 127) @ (1 << np.arange(BITS)[::-1]))


def _short(color: Color) -> str:
    return f"{color.matrix} {color.range}"
