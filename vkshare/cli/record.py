"""`vkshare record`: a published picture in a file, as video or as PNG pictures."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

from vkshare.cli.output import say
from vkshare.errors import UnsupportedError, VkshareError

if TYPE_CHECKING:
    from vkshare.view.recording import Recorder, RecordingStatistics

HELP = "records a published picture: .mp4, .webm, lossless .mkv, .gif or .png"
DESCRIPTION = (
    "Records what a process of this user has published under NAME, and never slows it. The file's ending says the "
    "kind: .mp4 (H.264), .webm (VP9), .mkv (FFV1, lossless), .gif, .png (one picture; out-%05d.png: a sequence). "
    "The recording ends with Ctrl-C, SIGTERM or SIGHUP, with the publisher, or after --seconds or --frames; the file "
    "is whole then, and the frames that are not in it are counted: exit status 0."
)
_SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
_SLICE = 0.1  # seconds between two looks whether a signal came


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("name", metavar="NAME", help="a name that surface.publish() or another publish() gave")
    parser.add_argument("file", metavar="FILE", help="the file")
    parser.add_argument("--rate", type=float, metavar="N", help="frames a second at most (default: each frame)")
    parser.add_argument("--seconds", type=float, metavar="S", help="end by itself after so long")
    parser.add_argument("--frames", type=int, metavar="N", help="end by itself after so many frames")
    parser.add_argument("--codec", metavar="NAME", help="h264, vp9, av1 or ffv1, where the kind of file may have it")
    parser.add_argument(
        "--crf", type=int, metavar="N", help="quality: a smaller number is better and larger (h264: 20)"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    parser.add_argument("--json", action="store_true", help="at the end, print the counters as JSON, and nothing else")


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when it has ended and the file is whole, 1 after an error, 2 for wrong arguments or names."""
    from vkshare import view

    try:
        with _ended_by_signals() as stopped:
            recorder = view.record(
                args.name,
                args.file,
                rate=args.rate,
                seconds=args.seconds,
                frames=args.frames,
                codec=args.codec,
                crf=args.crf,
                force=args.force,
            )
            return _record(recorder, stopped, args)
    except (ValueError, OSError, UnsupportedError) as error:
        return say("record", str(error).replace("force=True", "--force"), 2)
    except VkshareError as error:
        return say("record", str(error), 1)


class _Stop:
    """The signal that came first, if one did."""

    came: signal.Signals | None = None

    def note(self, number: int, _: object) -> None:
        self.came = self.came or signal.Signals(number)


def _record(recorder: Recorder, stopped: _Stop, args: argparse.Namespace) -> int:
    if not args.json:
        print(f"{args.name} is recorded to {args.file}; Ctrl-C ends it", flush=True)
    from vkshare.view.recording_threads import CLOSED

    try:
        with recorder:
            while not stopped.came and not recorder.wait(_SLICE):
                pass
    except (VkshareError, OSError) as error:
        _tell(recorder.statistics(), args)
        return say("record", str(error), 1)
    counts = recorder.statistics()
    if stopped.came and counts.end == CLOSED:
        counts = dataclasses.replace(counts, end=f"stopped by {_SIGNALS[stopped.came]}")
    _tell(counts, args)
    return 0 if counts.frames else say("record", f"{args.name} has sent no frame, and there is no file", 1)


def _tell(counts: RecordingStatistics, args: argparse.Namespace) -> None:
    if args.json:
        print(json.dumps({"file": args.file, **dataclasses.asdict(counts)}), flush=True)
        return
    quality = "lossless" if counts.is_lossless else "lossy"
    print(
        f"{args.file}: {counts.frames} frames in {counts.seconds:.2f} s, {counts.width}x{counts.height} "
        f"{counts.format}, {counts.codec} ({quality}), {counts.nbytes} bytes\n"
        f"not in it: {counts.missing} frames that never came, {counts.dropped} that came while the encoder was "
        f"behind, {counts.skipped} above the rate\n"
        f"it ended: {counts.end}",
        flush=True,
    )


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[_Stop]:
    """The signals are noted in the block. nohup has SIGHUP ignored, and it stays so."""
    stop = _Stop()
    noted = [each for each in _SIGNALS if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, stop.note) for each in noted}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
