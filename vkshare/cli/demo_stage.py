"""The demos on a stage of their own: window, triangle, torch, pipeline, video and resize-storm."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from vkshare.cli import table
from vkshare.cli.demo_arguments import add_common_arguments, failed, frames_of, options_of, save, seconds, tell

if TYPE_CHECKING:
    from vkshare.demos.stage import Stage, StageOptions
    from vkshare.demos.storm import Report, Sample

    _Show = Callable[[Stage, StageOptions], int]

_POLICIES = {"acquires": False, "fences": True, "auto": None}  # name -> present_fences
_COLUMNS = {"TIME": 7, "RESIZES": 8, "FRAMES": 8, "ALIVE": 6, "RETIRED": 8, "MOST": 8}
_COLUMNS |= {"SEMAPHORES": 11, "POOLED": 7, "WAITS": 6, "MEMORY": 10}


def add_arguments(
    parser: argparse.ArgumentParser,
    default_size: tuple[int, int] = (1280, 720),
    frames: str = "end after so many (default: Esc ends it; headless 300)",
) -> None:
    parser.add_argument("--headless", action="store_true", help="no window: frames go to --output only")
    parser.add_argument("--frames", type=int, metavar="N", help=frames)
    add_common_arguments(parser, default_size)


def _present(args: argparse.Namespace, show: _Show, *, has_end: bool = False, **swapchain_options: Any) -> int:
    """Opens what the arguments say, calls ``show(stage, options)``, and writes the picture that was shown last.

    Parameters
    ----------
    has_end
        `show` returns by itself some time, also without a number of frames.

    Returns
    -------
    `show`'s exit status.
    """
    from vkshare.demos import stage

    frames = args.frames if has_end else frames_of(args)
    options = stage.StageOptions(**options_of(args), frames=frames, headless=args.headless)
    with stage.opened(options, f"vkshare: {args.demo}", **swapchain_options) as opened:
        status = show(opened, options)
        if options.output is not None:
            save("demo", opened.shown(), options.output)
    return status


def window(args: argparse.Namespace) -> int:
    def show(stage: Stage, options: StageOptions) -> int:
        from vkshare.demos.window import Show

        with Show(stage, options.frames) as scene:
            stage.play(scene.draw, options.frames)
        return 0

    return _present(args, show)


def triangle(args: argparse.Namespace) -> int:
    def show(stage: Stage, options: StageOptions) -> int:
        from vkshare.demos import triangle

        stage.play(lambda frame, number, seconds: triangle.draw(stage.device, frame, seconds), options.frames)
        return 0

    return _present(args, show)


# ---- torch ---------------------------------------------------------------------------------------------------------


def torch(args: argparse.Namespace) -> int:
    from vkshare.demos import turns

    library = turns.load()
    if args.adapter is None:
        args.adapter = turns.named_by_torch(library, args.backend)

    def show(stage: Stage, options: StageOptions) -> int:
        with turns.Turns(library, stage, options.width, options.height) as taken:
            stage.play(taken.draw, options.frames)
            report = taken.report()
        print(_torch_text(report))
        if report["ok"]:
            return 0
        late = f"PyTorch saw another picture than the one drawn for it in {report['late']} of {report['frames']} frames"
        wrong = late if report["late"] else "the last picture is not the one that PyTorch made of the last frame"
        return failed(f"{wrong}: the turns are NOT in order", 1)

    return _present(args, show)


def _torch_text(report: dict[str, Any]) -> str:
    where = f"PyTorch {report['torch']} on {report['device']}, in memory of {report['adapter']}"
    first = f"{where}, as {report['why']}" if report["why"] else where
    spent = report["handing_over"]
    time = f"{spent * 1e6:.0f} us" if spent < 1e-3 else f"{spent * 1e3:.1f} ms"
    waits = "which did not wait" if report["ordered_by"] == "GPU" else "which waited for each drawing"
    cost = f"the turns took {time} a frame of the CPU, {waits}"
    return f"{first}\n{report['frames']} frames, ordered by the {report['ordered_by']}: {cost}"


# ---- pipeline ------------------------------------------------------------------------------------------------------


def pipeline_arguments(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def pipeline(args: argparse.Namespace) -> int:
    def show(stage: Stage, options: StageOptions) -> int:
        from vkshare.demos import pipeline

        return tell(pipeline.run(stage, options), args.json, _pipeline_text)

    return _present(args, show)


def _pipeline_text(report: dict[str, Any]) -> str:
    rate = report["frames"] / max(report["seconds"], 1e-9)
    latency, most = report["latency"] * 1e3, report["most_latency"] * 1e3
    good = f"all frames in order, {report['checked']} of them as they must be"
    facts = {
        "adapter": report["adapter"],
        "queues": f"3, over {report['surfaces']} surfaces of {report['width']}x{report['height']}",
        "frames": f"{report['frames']} in {report['seconds']:.2f} s, {rate:.1f} a second",
        "latency": f"painter to viewer {latency:.1f} ms, at most {most:.1f} ms",
        "checked": "; ".join(report["wrong"][:5]) or good,
    }
    lines = [f"{name:<9} {value}" for name, value in facts.items()]
    rows = []
    for s in report["stages"]:
        costs = table.seconds(s["waited"]), table.nbytes(s["metadata"]), table.nbytes(s["copied"])
        rows.append((s["stage"], s["frames"], s["waits"], *costs))
    head = ("STAGE", "FRAMES", "WAITS", "WAITED", "METADATA", "COPIED")
    return "\n".join([*lines, "", table.render(head, rows, right=head[1:])])


# ---- video ---------------------------------------------------------------------------------------------------------


def video(args: argparse.Namespace) -> int:
    def show(stage: Stage, options: StageOptions) -> int:
        from vkshare.demos import video

        return tell(video.run(stage, options), args.json, _video_text)

    return _present(args, show)


def _video_text(report: dict[str, Any]) -> str:
    rate = report["frames"] / max(report["seconds"], 1e-9)
    good = f"{report['checked']} frames of the video, each with the squares of its number"
    facts = {
        "adapter": report["adapter"],
        "window": f"{report['frames']} frames in {report['seconds']:.2f} s, {rate:.1f} a second",
        "scene": f"{report['scene_frames']} frames of another process",
        "video": f"{report['video_frames']} frames of another process, {report['video_format']} "
        f"({report['video_color']})",
        "pace": f"{report['shown']} shown, {report['late']} late, {report['dropped']} dropped",
        "checked": "; ".join(report["wrong"][:5]) or good,
    }
    return "\n".join(f"{name:<9} {value}" for name, value in facts.items())


# ---- resize-storm --------------------------------------------------------------------------------------------------


def storm_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds",
        type=partial(seconds, most=86400, allowed="up to 86400"),
        default=10.0,
        metavar="N",
        help="how long (default: 10)",
    )
    parser.add_argument(
        "--policy",
        choices=tuple(_POLICIES),
        default="auto",
        help="what proves that an old swapchain is over: later acquires, the fences of VK_EXT_swapchain_maintenance1, "
        "or the latter where there are any (default)",
    )
    add_arguments(parser, (400, 300), "end after so many (default: as many as --seconds allows)")


def storm(args: argparse.Namespace) -> int:
    def show(stage: Stage, options: StageOptions) -> int:
        from vkshare.demos import storm

        by = "present fences" if stage.swapchain.statistics().by_fences else "later acquires"
        print(f"{stage.device.adapter.name}, {stage.swapchain.present_mode}, old swapchains are over by {by}")
        print("".join(name.rjust(width) for name, width in _COLUMNS.items()), flush=True)
        report = storm.run(stage, args.seconds, options.frames, lambda sample: print(_row(sample), flush=True))
        print(_row(report.last))
        print(_memory(report, storm.WARM_UP))
        faults = report.faults()
        for fault in faults:
            failed(fault, 1)
        return 1 if faults else 0

    return _present(args, show, has_end=True, present_fences=_POLICIES[args.policy])


def _row(sample: Sample) -> str:
    now = sample.swapchain
    cells = [
        f"{sample.seconds:.1f} s",
        *map(str, (sample.resizes, now.frames, now.swapchains, now.retired)),
        f"{now.most_alive} of {now.retired_limit + 1}",
        *map(str, (now.semaphores, now.pooled_semaphores, now.resize_waits)),
        table.nbytes(sample.resident),
    ]
    return "".join(cell.rjust(width) for cell, width in zip(cells, _COLUMNS.values(), strict=True))


def _memory(report: Report, warm_up: int) -> str:
    early, late = report.early, report.late
    first = next((s for s in report.samples if s.resizes >= 100), None)
    at = f"{table.nbytes(first.resident)} after {first.resizes} resizes, " if first else ""
    reported = f"memory: {at}{table.nbytes(early)} early, {table.nbytes(late)} at the end, ratio {late / early:.3f}"
    if report.last.resizes < warm_up:
        reported += f" (fewer than {warm_up} resizes tell nothing)"
    return f"{reported}; {report.last.resizes / max(report.last.seconds, 1e-9):.0f} resizes a second"
