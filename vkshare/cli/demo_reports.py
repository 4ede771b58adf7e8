"""The demos that end with a report: shared, text and desktop."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from vkshare.cli import demo_stage, table
from vkshare.cli.demo_arguments import add_common_arguments, failed, frames_of, options_of, tell

if TYPE_CHECKING:
    from vkshare.compositor.window_host import Signals
    from vkshare.demos.options import Options

_Text = Callable[[dict[str, Any]], str]


def _add_arguments(parser: argparse.ArgumentParser, frames: int) -> None:
    parser.add_argument("--image", metavar="FILE", help="the picture on the cube (default: one that ships)")
    parser.add_argument("--frames", type=int, default=frames, metavar="N", help=f"how many (default: {frames})")
    add_common_arguments(parser, (1280, 720))


def _options(args: argparse.Namespace, **more: Any) -> Options:
    from vkshare.demos import pictures
    from vkshare.demos.options import Options

    if args.image is not None:
        pictures.check_readable(args.image)
    return Options(**options_of(args), image=args.image, frames=args.frames, **more)


def run_to_report(run: Callable[[Signals], dict[str, Any] | None], as_json: bool, text: _Text) -> int:
    """Runs it until a signal comes, and prints its report."""
    from vkshare.compositor.window_host import Signals

    with Signals() as signals:
        report = run(signals)
    if report is None:
        return failed("interrupted" if signals.came == signal.SIGINT else "terminated", 128 + signals.came)
    return tell(report, as_json, text)


def fact_lines(report: dict[str, Any], facts: dict[str, Any], width: int) -> list[str]:
    """The facts, and where the picture is."""
    picture = {} if report["output"] is None else {"picture": report["output"]}
    return [f"{name:<{width}} {value}" for name, value in (facts | picture).items()]


def fault_lines(report: dict[str, Any]) -> list[str]:
    return ["", *report["faults"]] if report["faults"] else []


# ---- shared --------------------------------------------------------------------------------------------------------


def shared_arguments(parser: argparse.ArgumentParser) -> None:
    _add_arguments(parser, 300)
    parser.add_argument("--force-copy", action="store_true", help="pass frames by copies, to see what they cost")
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def shared(args: argparse.Namespace) -> int:
    from vkshare.demos import shared

    options = _options(args, force_copy=args.force_copy)

    def run(signals: Signals) -> dict[str, Any] | None:
        with _progress(options.frames) as progress:
            return shared.run(options, signals, progress)

    return run_to_report(run, args.json, _shared_text)


@contextlib.contextmanager
def _progress(frames: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr where that is a terminal and tqdm is installed."""
    if not sys.stderr.isatty() or importlib.util.find_spec("tqdm") is None:
        yield lambda done: None
        return
    from tqdm import tqdm

    with tqdm(total=frames, unit=" frames", leave=False, file=sys.stderr) as bar:
        yield lambda done: bar.update(done - bar.n)


def _shared_text(report: dict[str, Any]) -> str:
    adapter = report["adapter"]
    wrong = f"{report['faulty']} of {report['frames']} frames are WRONG"
    facts = {
        "adapter": f"{adapter['name']} ({adapter['driver']})",
        "why": report["why"],
        "surface": f"{report['width']}x{report['height']} {report['format']}, {report['tiling']}",
        "frames": f"{report['frames']} in {report['seconds']:.2f} s",
        "rate": f"{report['frames_per_second']:.1f} frames a second",
        "checked": "every frame is as it must be" if report["ok"] else wrong,
        "copied": _copied(report),
    }
    rows = [
        (f"{h['giver']} -> {h['taker']}", *(_microseconds(h[name]) for name in ("p50", "p99", "held")))
        for h in report["handovers"]
    ]
    head = ("HAND-OVER", "P50", "P99", "OWNED BEFORE")
    return "\n".join(
        [*fact_lines(report, facts, 9), "", table.render(head, rows, right=head[1:]), *fault_lines(report)]
    )


def _copied(report: dict[str, Any]) -> str:
    """The counters of the three processes' copy paths."""
    total = sum(report["copied_per_frame"].values())
    by = ", ".join(f"{name} {table.nbytes(round(n))}" for name, n in report["copied_per_frame"].items() if n)
    reported = f"{table.nbytes(round(total))} a frame" + (f" ({by})" if by else "")
    if total and not report["forced_copy"]:
        reported += ": the CPU cannot map this adapter's surfaces"
    return f"{reported}; {table.nbytes(report['copied_setup'])} once, for the picture and the backdrop"


def _microseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f} us" if value < 1000 else f"{value / 1000:.2f} ms"


# ---- text ----------------------------------------------------------------------------------------------------------


def text_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--library", choices=("pillow", "cairo", "skia"), default="pillow", help="default: pillow")
    parser.add_argument(
        "--writer", choices=("other", "same"), default="other", help="whose device it writes on (default: another)"
    )
    _add_arguments(parser, 120)
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def text(args: argparse.Namespace) -> int:
    from vkshare.demos import pictures, text

    options = _options(args)
    try:
        report, picture = text.run(options, args.library, args.writer == "other")
    except ValueError as error:
        return failed(str(error), 1)
    if options.output is not None:
        pictures.save(picture, options.output)
    return tell(report, args.json, _text_text)


def _text_text(report: dict[str, Any]) -> str:
    seen = "the renderer saw what was written" if report["seen_alike"] else "the renderer saw SOMETHING ELSE"
    facts = {
        "adapter": report["adapter"],
        "why": report["why"],
        "written by": f"{report['library']}, {report['format']}, in {report['writing'] * 1e3:.2f} ms a frame",
        "devices": "another writes than renders" if report["two_devices"] else "one writes and renders",
        "frames": f"{report['frames']} in {report['seconds']:.2f} s, {report['frames_per_second']:.1f} a second",
        "copied": f"{table.nbytes(round(report['copied_per_frame']))} a frame",
        "checked": seen if report["written"] else "the library drew NOTHING",
    }
    return "\n".join(fact_lines(report, facts, 11))


# ---- desktop -------------------------------------------------------------------------------------------------------


def desktop_arguments(parser: argparse.ArgumentParser) -> None:
    frames = "end after so many composites, from when every client was shown (default: Esc ends it; headless 300)"
    demo_stage.add_arguments(parser, frames=frames)
    parser.add_argument("--one-process", action="store_true", help="the compositor in the demo's own process")
    parser.add_argument(
        "--crash-after",
        type=float,
        default=3.0,
        metavar="S",
        help="seconds after which the client that crashes does (default: 3)",
    )
    parser.add_argument(
        "--remote",
        action="store_true",
        help="all of them draw at a viewer, in a process of its own, behind a bad network (docs/remote.md)",
    )
    network = {"delay": (0.1, "S", "each way"), "rate": (20.0, "MBIT/S", "each way"), "loss": (0.01, "P", "of packets")}
    for name, (default, unit, what) in network.items():
        parser.add_argument(
            f"--{name}", type=float, default=default, metavar=unit, help=f"with --remote: {what} ({default:g})"
        )
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def desktop(args: argparse.Namespace) -> int:
    from vkshare.compositor.window_host import NoDisplay
    from vkshare.demos.desktop import run as desktop
    from vkshare.demos.options import DesktopOptions

    more = {"is_one_process": args.one_process, "crash_after": args.crash_after, "is_remote": args.remote}
    more |= {"delay": args.delay, "rate": args.rate, "loss": args.loss}
    options = DesktopOptions(**options_of(args), frames=frames_of(args), headless=args.headless, **more)
    try:
        return run_to_report(lambda signals: desktop.run(options, signals), args.json, _desktop_text)
    except NoDisplay as error:
        return failed(str(error), 2)


def _remote_facts(report: dict[str, Any]) -> dict[str, str]:
    remote = report.get("remote")
    if remote is None:
        return {}
    seconds, viewer, pictures = report["seconds"], remote["viewer"], remote["pictures"]
    return {
        "viewer": f"{viewer['composites']} pictures shown of {viewer['arrived']} that came, {remote['replaced']} "
        f"replaced before they were sent; at the end {viewer['rate']:.1f} a second, delayed by "
        f"{viewer['delay'] * 1e3:.0f} ms to be steady",
        "pictures": f"{pictures['equal']} of {pictures['shown']} that were shown, of {pictures['frames']} by number, "
        "have the SHA-256 of a local run's",
        "network": f"{remote['sent'] / seconds / 125e3:.2f} Mbit/s to the viewer, "
        f"{remote['received'] / seconds / 125e3:.2f} back; round trip {remote['round_trip'] * 1e3:.0f} ms",
    }


def _desktop_text(report: dict[str, Any]) -> str:
    steady, display = report["steady"], report["display"]
    good = "every client was shown, in order, and waited for no other client"
    facts = {
        "adapter": report["adapter"],
        "display": f"{display['rate']:g} Hz, {display['kind']}",
        "composites": f"{steady['composites']} in the {steady['seconds']:.1f} s after every client was shown; of "
        f"{steady['ticks'] + steady['missed']} ticks {steady['missed']} missed, {steady['skipped']} skipped",
        "restarts": f"{report['restarts']}, of the client that crashes",
        **_remote_facts(report),
        "checked": good if report["ok"] else "NOT as it must be",
    }
    columns = ("name", "shown", "lost", "superseded", "windows", "state", "detail")
    rows = [tuple(client[column] for column in columns) for client in report["clients"]]
    head = ("CLIENT", "SHOWN", "LOST", "SUPERSEDED", "WINDOWS", "STATE", "")
    return "\n".join(
        [*fact_lines(report, facts, 11), "", table.render(head, rows, right=head[1:5]), *fault_lines(report)]
    )
