"""Draws a Timeline of timeline.py with matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import charts
import matplotlib
from charts import plot_style
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

if TYPE_CHECKING:
    from timeline import FrameOut, Timeline

OURS = plot_style.BLUE
PRESENT = plot_style.ORANGE
PROOF = plot_style.GREEN
GONE = plot_style.GREY
INK = plot_style.INK
LOW = 0.3  # where proofs stand in their lane


def draw(timeline: Timeline, output: Path) -> None:
    """Writes the picture; the ending chooses SVG or PNG."""
    with matplotlib.rc_context(plot_style.SETTINGS):
        figure = Figure(figsize=(charts.WIDTH, 11.6), facecolor="white")
        images = 1 + max(frame.image for frame in timeline.frames)
        rows = (len(timeline.chains), images, len(timeline.uses), 3)
        axes = figure.subplots(4, 1, sharex=True, height_ratios=rows, gridspec_kw={"hspace": 0.2})
        _draw_chains(axes[0], timeline)
        _draw_images(axes[1], timeline, images)
        _draw_semaphores(axes[2], timeline)
        _draw_history(axes[3], timeline)
        _draw_proofs(figure, axes, timeline)
        _legend(figure)
        axes[3].set_xlim(0, timeline.end * 1.02)
        axes[3].set_xlabel("ms since the swapchain was made")
        figure.subplots_adjust(left=0.175, right=0.98, top=0.885, bottom=0.05)
        charts.save(figure, output)


def _draw_chains(axis: Any, timeline: Timeline) -> None:
    for lane, chain in enumerate(timeline.chains):
        retired = chain.retired if chain.retired is not None else chain.destroyed
        charts.bar(axis, lane, chain.created, retired, OURS)
        charts.bar(axis, lane, retired, chain.destroyed, GONE)
        axis.plot([chain.destroyed], [lane], marker="x", color=INK, markersize=8, markeredgewidth=2)
    charts.lanes(axis, [chain.name for chain in timeline.chains], "VkSwapchainKHRs")


def _draw_images(axis: Any, timeline: Timeline, images: int) -> None:
    for number, frame in enumerate(timeline.frames):
        if frame.presented is None:
            axis.plot([frame.acquired], [frame.image], marker="|", color=INK, markersize=11)
        else:
            charts.bar(axis, frame.image, frame.acquired, frame.presented, OURS)
            axis.plot([frame.presented], [frame.image], marker=">", color=PRESENT, markersize=9, zorder=4)
            axis.text(frame.presented, frame.image - 0.02, f"  {frame.number}", ha="left", va="center", fontsize=10)
        if frame.completed is not None and _proves(timeline, number):
            axis.plot([frame.completed], [frame.image + LOW], marker="o", color=PROOF, markersize=6, zorder=5)
    for chain in timeline.chains:
        if chain.retired is not None:
            axis.axvline(chain.retired, color=INK, linewidth=1, linestyle=(0, (4, 3)))
            axis.text(chain.retired, -0.62, " resized", fontsize=10, ha="left", va="bottom")
    charts.lanes(axis, [f"image {image}" for image in range(images)], "Frames, by image")


def _proves(timeline: Timeline, number: int) -> bool:
    return any(frame.proof == number and frame.waits for frame in timeline.frames)


def _draw_semaphores(axis: Any, timeline: Timeline) -> None:
    for lane, spans in enumerate(timeline.uses.values()):
        axis.plot([0, timeline.end], [lane, lane], color="#eeeeee", linewidth=1, zorder=0)
        for span in spans:
            charts.bar(axis, lane, span.begin, span.end, PRESENT if span.present else OURS)
            if span.present:
                axis.text((span.begin + span.end) / 2, lane, f"{span.present}", ha="center", va="center", fontsize=10)
    charts.lanes(axis, [timeline.names[serial] for serial in timeline.uses], "Binary VkSemaphores in use")


def _draw_history(axis: Any, timeline: Timeline) -> None:
    times, counts = zip(*timeline.history, strict=True)
    axis.step(times, counts, where="post", color=INK, linewidth=1.6)
    axis.fill_between(times, counts, step="post", color=PRESENT, alpha=0.35, linewidth=0)
    axis.set_ylim(0, max(counts) + 1)
    axis.set_yticks(range(0, max(counts) + 2, 2))
    axis.grid(color=plot_style.GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    charts.heading(axis, "Length of the history: presents that are not known to be over")


def _draw_proofs(figure: Figure, axes: Any, timeline: Timeline) -> None:
    """From each proof to the semaphores and swapchains that it sets free."""
    lanes = list(timeline.uses)
    for frame in timeline.frames:
        proof = timeline.frames[frame.proof] if frame.proof is not None else None
        if proof is None or proof.completed is None:
            continue
        for semaphore in frame.waits:
            end = _end_of(timeline, semaphore, frame)
            tip = (end, lanes.index(semaphore) - charts.BAR / 2)
            figure.add_artist(charts.arrow(axes[1], (proof.completed, proof.image + LOW), axes[2], tip, PROOF))
    for number, chain in enumerate(timeline.chains):
        last = [f for f in timeline.frames if f.chain == number and f.proof is not None]
        proof = timeline.frames[last[-1].proof] if chain.retired is not None and last else None  # type: ignore[index]
        if proof is not None and proof.completed is not None:
            tip = (chain.destroyed, number + charts.BAR / 2)
            figure.add_artist(charts.arrow(axes[1], (proof.completed, proof.image + LOW), axes[0], tip, PROOF))


def _end_of(timeline: Timeline, semaphore: int, frame: FrameOut) -> float:
    assert frame.presented is not None
    spans = [use for use in timeline.uses[semaphore] if use.present and use.begin <= frame.presented]
    return spans[-1].end


def _legend(figure: Figure) -> None:
    ours = "a swapchain that is current; a frame that is ours;\na semaphore that an acquire signals"
    proof = "proof: the image was acquired again, and the\nsubmission that waited for that has run"
    handles = [
        Patch(color=OURS, label=ours),
        Patch(color=PRESENT, label="a semaphore that present N waits for, and may still"),
        Patch(color=GONE, label="a retired swapchain: it may still be shown"),
        Line2D([], [], linestyle="", marker=">", color=PRESENT, markersize=9, label="present number N"),
        Line2D([], [], marker="o", color=PROOF, markersize=6, linewidth=0.9, label=proof),
        Line2D([], [], linestyle="", marker="x", color=INK, markersize=8, markeredgewidth=2, label="destroyed"),
    ]
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.998), "ncols": 2, "columnspacing": 3}
    figure.legend(handles=handles, frameon=False, fontsize=10.5, **place)
