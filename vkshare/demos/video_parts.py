"""The two other processes of the video demo: one makes a clip and decodes it, the other draws a scene."""

from __future__ import annotations

import math
import socket
import struct
import time
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from pathlib import Path

import vkshare
from vkshare import CommandList, Device, Surface
from vkshare.demos import process
from vkshare.demos.layout import BITS, Layout
from vkshare.demos.marks import DARK, squares
from vkshare.demos.painter import Painter
from vkshare.errors import ClosedError, VideoError
from vkshare.video import Player
from vkshare.vsync import Display, VsyncDispatcher

ROLES = ("renderer", "decoder")
CLIP_SIZE, CLIP_FRAMES, CLIP_RATE = (640, 360), 150, 30
CELL = 8  # pixels a side of a square
MARK = (CLIP_SIZE[0] - BITS * CELL - 16, CLIP_SIZE[1] // 2)  # of the squares' top left
NOTE = struct.Struct("<QQQQ")  # beside a frame of the video: its number; frames shown, late and dropped so far
_RATE, _TURN = 60.0, 8.0  # frames a second of the scene, and seconds of the cube's revolution
_BARS = 14


@dataclass(frozen=True, slots=True)
class Parts:
    """The arguments of both."""

    backend: str
    adapter: str
    width: int  # of the scene, pixels
    height: int
    folder: str  # for the clip


def main() -> None:
    process.serve(Parts, work)


def work(parts: Parts, role: str, link: int, status: int) -> None:
    """Runs a role until the window's process closes its pipe."""
    with (
        socket.socket(fileno=link) as sock,
        vkshare.open(parts.adapter, backend=parts.backend, name=f"demo {role}") as device,
    ):
        try:
            (_decode if role == "decoder" else _render)(parts, device, sock)
        except ClosedError:
            pass  # the window's process has closed the pipe


def _render(parts: Parts, device: Device, sock: socket.socket) -> None:
    layout = Layout.at_least(parts.width, parts.height)
    sender, descriptor = vkshare.pipe(device, layout.width, layout.height)
    with sender, Painter(device, layout) as painter:
        with descriptor:
            descriptor.send(sock)
        start = time.monotonic()
        for number in count():
            left = start + number / _RATE - time.monotonic()
            if left > 0:
                time.sleep(left)
            with sender.frame() as frame:
                device.submit(painter.record(frame.view, number, number / _RATE / _TURN % 1))


def _decode(parts: Parts, device: Device, sock: socket.socket) -> None:
    path = Path(parts.folder) / "clip.mp4"
    make_clip(path, device)
    with (
        vkshare.video.open(path, device, loop=True) as clip,
        Player(clip) as player,
        Display("the clip's", interval=Fraction(1, 60)) as display,
        VsyncDispatcher(display) as dispatcher,
        dispatcher.observe() as ticks,
    ):
        sender, descriptor = vkshare.pipe(
            device, clip.width, clip.height, clip.format, metadata_size=NOTE.size, color=clip.color
        )
        with sender:
            with descriptor:
                descriptor.send(sock)
            _play(device, player, ticks, sender)


def _play(device: Device, player: Player, ticks: vkshare.vsync.Observer, sender: vkshare.Sender[Surface]) -> None:
    last = -1
    while True:
        tick = ticks.wait()
        try:
            frame = player.frame_at(tick)
        except VideoError:
            continue
        if frame is None or frame.index == last:
            continue
        last = frame.index
        known = player.statistics()
        with sender.frame(NOTE.pack(frame.index, known.shown, known.late, known.dropped)) as sent:
            device.submit(device.record().copy(frame.surface, sent.view))


# ---- the clip ------------------------------------------------------------------------------------------------------


def make_clip(path: Path, device: Device) -> None:
    """Writes the clip: five seconds that end where they begin, and in each frame its number in squares."""
    width, height = CLIP_SIZE
    with (
        device.create_surface(width, height) as surface,
        surface.access(),
        vkshare.video.Writer(path, width, height, CLIP_RATE) as writer,
    ):
        for number in range(CLIP_FRAMES):
            device.submit(picture(device, surface, number))
            writer.write(surface)


def picture(device: Device, surface: Surface, number: int) -> CommandList:
    """Draws a frame of the clip: bars on waves."""
    width, height = CLIP_SIZE
    turn = 2 * math.pi * number / CLIP_FRAMES
    commands = device.record().clear(surface, (0.05, 0.06, 0.15, 1))
    for bar in range(_BARS):
        phase = turn + 2 * math.pi * bar / _BARS
        across = width // _BARS
        reach = int(height * (0.21 + 0.12 * math.sin(phase) + 0.06 * math.sin(2 * phase + turn)))
        shade = 0.5 + 0.5 * math.sin(phase + 1)
        colour = (0.25 + 0.6 * shade, 0.35 + 0.3 * math.cos(phase), 0.95 - 0.5 * shade, 1)
        commands.fill_rect(surface, (bar * across + 3, height // 2 - reach, across - 6, 2 * reach), colour)
    for rect, shade_of in squares(number, MARK, CELL):
        commands.fill_rect(
            surface, _larger(rect) if shade_of == DARK else rect, [channel / 255 for channel in shade_of]
        )
    return commands


def _larger(rect: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """The strip of the squares, with a margin that keeps the bars' colours away."""
    x, y, width, height = rect
    return x - 4, y - 4, width + 8, height + 8
