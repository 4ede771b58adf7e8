"""`vkshare demo`: programs that show what vkshare is for."""

from __future__ import annotations

import argparse
import importlib.util
import signal
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from vkshare.cli import demo_engines, demo_reports, demo_stage
from vkshare.cli.demo_arguments import failed

HELP = "programs that show what vkshare is for; each has --help"


class Demo(NamedTuple):
    """One of them."""

    help: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]  # returns the exit status
    needs_pillow: bool = True


_DEMOS = {
    "shared": Demo(
        "three processes draw one surface in turn, and what that costs",
        "Three processes share one surface: a renderer draws a turning cube, a text process writes over it with "
        "Pillow, a checker reads and checks every frame. Exit status 0 only if every frame was as it must be.",
        demo_reports.shared_arguments,
        demo_reports.shared,
    ),
    "text": Demo(
        "text and shapes by a 2D library in a surface's own memory, over a renderer's picture",
        "A 2D library (Pillow, cairo or Skia) writes into the memory of a surface itself, without a copy; a renderer "
        "puts that over its picture, on the same device or on another. Exit status 0 only if the renderer's handle "
        "reads what was written, bit for bit.",
        demo_reports.text_arguments,
        demo_reports.text,
    ),
    "torch": Demo(
        "a PyTorch kernel and a Vulkan renderer take turns on one surface",
        "A PyTorch kernel and a Vulkan renderer take turns on one surface, every frame, ordered on the GPU alone; on "
        "a machine without CUDA PyTorch runs on the CPU, over the surface's linear view, and the demo says so. "
        "PyTorch works in the surface's own memory. It checks that each picture is the one that was drawn for it; "
        "exit status 1 if not. Esc or the close button ends it.",
        partial(demo_stage.add_arguments, default_size=(960, 540)),
        demo_stage.torch,
    ),
    "pipeline": Demo(
        "three devices pass surfaces round three queues, with metadata",
        "A painter, a letterer and a viewer, each a device with a thread of its own, pass surfaces round three "
        "queues; the metadata beside a surface tells which frame it is, and when it was painted and lettered. Esc or "
        "the close button ends it. Exit status 0 only if every frame came in order, and those that were looked at "
        "were as they must be.",
        demo_stage.pipeline_arguments,
        demo_stage.pipeline,
    ),
    "window": Demo(
        "the scene of the shared demo in a window, with its frame times",
        "Shows the turning cube of `vkshare demo shared` in a window, with Vulkan or without. The picture follows the"
        " window's size; a graph tells how long the last frames took. Esc or the close button ends it.",
        demo_stage.add_arguments,
        demo_stage.window,
    ),
    "triangle": Demo(
        "a window with a turning triangle: the smallest useful program",
        "A window with a turning triangle. Its source, vkshare/demos/triangle.py, is the smallest useful program. Esc"
        " or the close button ends it.",
        partial(demo_stage.add_arguments, default_size=(640, 480)),
        demo_stage.triangle,
        needs_pillow=False,
    ),
    "video": Demo(
        "a process decodes a clip, another draws a scene, and a window shows both with text over them",
        "A process makes a clip, and decodes it at the ticks of a display; another one draws a scene; a third shows "
        "both in a window. The frames of the video stay in planes, as the decoder has them, until the window draws "
        "them, and text is put over them there. Every so many frames the squares in the video are compared with the "
        "number that came beside the frame; exit status 1 if one is wrong. Esc or the close button ends it.",
        demo_stage.pipeline_arguments,
        demo_stage.video,
    ),
    "resize-storm": Demo(
        "resizes as fast as it can, and tells what becomes of swapchains and memory",
        "Resizes as fast as it can and presents a frame after each resize, sometimes none and sometimes several. "
        "Tells once a second, and at the end, how many swapchains are alive. Exit status 1 when there ever were more "
        "of them than the bound on retired ones and the current one; or when memory grew: the resident set's median "
        "over the last tenth of the time is more than 2 % and 4 MiB above that over the second tenth (so with warm "
        "caches, and not before 300 resizes), each looked at whenever the same size has come round.",
        demo_stage.storm_arguments,
        demo_stage.storm,
        needs_pillow=False,
    ),
    "desktop": Demo(
        "eight processes of different kinds in one window, and a compositor that waits for none of them",
        "Eight processes show a window each in one compositor, which has a process of its own: renderers on Vulkan "
        "and on the CPU, text, PyTorch or NumPy, a surface that changes hands by its keys, one that moves and fades, "
        "one that is slow, and one that is killed every few seconds and started again. Statistics are shown live, and"
        " printed at the end. Exit status 0 only if every client was shown, in order, and the slow one delayed no "
        "other client. Esc or the close button ends it.",
        demo_reports.desktop_arguments,
        demo_reports.desktop,
    ),
    "engines": Demo(
        "stock engines from PyPI, a process each, draw one picture in turns and a wall side by side",
        "Engines from PyPI (moderngl, pyglet, wgpu, pygfx, slangpy, Panda3D, PyVista, Matplotlib) draw in a process "
        "each: a tile of the compositor's wall, and in turns one picture, in its middle. One after the other is killed "
        "every few seconds and started again. The report says per engine how many turns it took, how many copies they "
        "made, and what a turn costs over the engine's own submit; and which engines do not run here, and why. Exit "
        "status 0 only if each of the others is on the wall and in the picture at the end. Esc or the close button "
        "ends it.",
        demo_engines.add_arguments,
        demo_engines.run,
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    demos = parser.add_subparsers(dest="demo", required=True, metavar="DEMO")
    for name, demo in _DEMOS.items():
        demo.add_arguments(demos.add_parser(name, help=demo.help, description=demo.description))


def run(args: argparse.Namespace) -> int:
    """Exit status 0, 1 if something was not as it must be, 2 for wrong arguments, 130 after Ctrl-C, 143 after SIGTERM.

    Without a display where one is needed it is 2.
    """
    demo = _DEMOS[args.demo]
    if (demo.needs_pillow or args.output is not None) and importlib.util.find_spec("PIL") is None:
        return failed("the demo needs Pillow: pip install 'vkshare[demo]'", 1)
    try:
        return demo.run(args)
    except (ValueError, OSError) as error:
        return failed(str(error), 2)
    except KeyboardInterrupt:
        return failed("interrupted", 128 + signal.SIGINT)
