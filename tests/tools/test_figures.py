"""tools/figures.py: the data of the pictures comes from real runs, faults in it are found, and the pictures show it."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from pathlib import Path

import pytest
from support.required_parts import need
from support.trace_runs import Trace
from test_jobs import prepare_driver

pytest.importorskip("matplotlib")

import figures
from figures import Frame, Plan
from figures_chart import Arrow, Bar, Picture, draw

pytestmark = pytest.mark.no_driver

MAIN, VIEWER = "main process", "viewer process"


@pytest.fixture(scope="module")
def vsync() -> Trace:
    return figures.traced("vsync", 30)


@pytest.fixture(scope="module")
def server() -> Trace:
    for _ in range(20):  # there are runs whose threads never take the steps in the order of the picture
        trace = figures.traced("server", 100)
        with contextlib.suppress(LookupError):
            work, no_op = work_and_no_op(figures.quickest_round(figures.SERVER, trace))
            if work.begin < no_op.end:
                break
    return trace


def work_and_no_op(picture: Picture) -> tuple[Bar, Bar]:
    """The work of the painter in the device's queue, and the call of the visitor beside it."""
    work = next(bar for bar in picture.bars if bar.lane == ("server", "vkshare-cpu: queue"))
    (no_op,) = (bar for bar in picture.bars if bar.text == "call no-op")
    return work, no_op


def ways(picture: Picture, kind: str) -> Counter[tuple[str, str]]:
    """From which lane to which one the arrows of that kind go."""
    names = {lane: lane[1] if lane[1] != "main" else lane[0] for lane in picture.lanes}
    return Counter((names[arrow.source], names[arrow.target]) for arrow in picture.arrows if arrow.kind == kind)


def test_a_tick_goes_from_the_source_over_the_display_to_the_windows_and_to_the_other_process(vsync: Trace) -> None:
    picture = figures.quickest_round(figures.VSYNC, vsync)
    assert ways(picture, "vertical blank") == {("vkshare x11-present", "vkshare-vsync"): 1}
    assert ways(picture, "tick by the bridge") == {("vkshare-vsync", "vkshare-vsync"): 1}
    assert ways(picture, "tick") == {
        ("vkshare-vsync", "window 1"): 1,
        ("vkshare-vsync", "window 2"): 1,
        ("vkshare-vsync", VIEWER): 1,
    }
    assert all(0 <= arrow.begin <= arrow.end <= picture.end for arrow in picture.arrows)
    (bridge,) = (arrow for arrow in picture.arrows if arrow.kind == "tick by the bridge")
    (there,) = (arrow for arrow in picture.arrows if arrow.target == (VIEWER, "main"))
    assert bridge.end <= there.begin
    (called,) = (bar for bar in picture.bars if bar.kind == "calls drivers")
    (taken,) = (arrow for arrow in picture.arrows if arrow.target == (MAIN, "window 2"))
    assert taken.end <= called.begin


def test_a_request_goes_over_the_loop_to_its_clients_worker_and_back(server: Trace) -> None:
    picture = figures.quickest_round(figures.SERVER, server)
    assert ways(picture, "request") == {("painter", "loop"): 2, ("visitor", "loop"): 2}
    assert ways(picture, "dispatch") == {("loop", "vks-client-1"): 2, ("loop", "vks-client-2"): 1}
    queue = "vkshare-cpu: queue"
    assert ways(picture, "submission") == {("vks-client-1", queue): 1, ("vks-client-2", queue): 1}
    assert ways(picture, "completion") == {("vks-client-1", "loop"): 2, ("vks-client-2", "loop"): 1, (queue, "loop"): 1}
    assert ways(picture, "reply") == {("loop", "painter"): 1, ("loop", "visitor"): 1}
    assert all(0 <= arrow.begin <= arrow.end <= picture.end for arrow in picture.arrows)
    work, no_op = work_and_no_op(picture)
    assert work.begin < no_op.end < work.end
    (sync,) = (bar for bar in picture.bars if bar.text == "call sync")
    assert sync.begin < work.end < sync.end


@pytest.mark.parametrize(
    ("plan", "name", "thread"),
    [(figures.VSYNC, "vsync", "window 2"), (figures.SERVER, "server", "vks-client-2")],
)
def test_a_thread_that_the_trace_lacks_is_named(
    plan: Plan, name: str, thread: str, request: pytest.FixtureRequest
) -> None:
    trace: Trace = request.getfixturevalue(name)
    gone = [track for track, each in trace.names("thread_name").items() if each == thread]
    bars = [
        row for row in trace.rows if row["ph"] == "M" or (row["ph"] == "X" and (row["pid"], row["tid"]) not in gone)
    ]
    with pytest.raises(LookupError, match=f"the trace has nothing of .*{thread}"):
        figures.quickest_round(plan, Trace(bars))


@pytest.mark.parametrize(
    ("plan", "name", "flow"),
    [(figures.VSYNC, "vsync", "tick"), (figures.SERVER, "server", "submission"), (figures.SERVER, "server", "request")],
)
def test_a_round_without_all_its_arrows_is_not_drawn(
    plan: Plan, name: str, flow: str, request: pytest.FixtureRequest
) -> None:
    trace: Trace = request.getfixturevalue(name)
    rest = [row for row in trace.rows if row["ph"] not in "stf" or row["name"] != flow]
    with pytest.raises(LookupError, match="no round of"):
        figures.quickest_round(plan, Trace(rest))


# ---- presentation ----------------------------------------------------------------------------------------------------


def frames(*given: tuple[int, int, bool]) -> list[int | None]:
    """The proofs of frames of (swapchain, image, whether it is presented), in the order of their acquires."""
    made = [
        Frame(chain, image, float(number), presented=number + 0.5 if is_presented else math.inf)
        for number, (chain, image, is_presented) in enumerate(given)
    ]
    figures.prove(made)
    return [None if frame.proof is None else int(frame.proof.acquired) for frame in made]


def test_a_present_is_proven_by_the_next_frame_of_its_image() -> None:
    assert frames((0, 0, True), (0, 1, True), (0, 0, True), (0, 1, False)) == [2, 3, None, None]


def test_a_present_of_a_retired_swapchain_is_proven_with_the_first_one_of_the_next() -> None:
    reported = frames((0, 0, True), (0, 1, True), (1, 0, True), (1, 1, True), (1, 0, False))
    assert reported == [4, 4, 4, None, None]


def test_the_presents_of_several_retired_swapchains_are_proven_with_one() -> None:
    assert frames((0, 0, True), (1, 0, True), (2, 1, True), (2, 1, True)) == [3, 3, 3, None]


def test_no_semaphore_of_a_real_run_is_used_again_before_the_proof() -> None:
    environment, unavailable = prepare_driver("lavapipe25")
    need("lavapipe25", not unavailable, unavailable)
    picture = figures.presented(environment)
    assert Counter(group for group, _ in picture.lanes)[figures.CHAINS] == 3
    shown = {bar.text: bar for bar in picture.bars if bar.lane[0] == figures.FRAMES and bar.text}
    uses = [bar for bar in picture.bars if bar.kind == figures.PRESENT]
    assert sorted(int(bar.text) for bar in uses) == sorted(map(int, shown)) == list(range(1, 16))
    assert all(use.begin == shown[use.text].end for use in uses)
    for lane in {use.lane for use in uses}:
        own = sorted((use for use in uses if use.lane == lane), key=lambda use: use.begin)
        assert all(use.end <= after.begin for use, after in itertools.pairwise(own)), lane
    assert [(arrow.target, arrow.end) for arrow in picture.arrows] == [(use.lane, use.end) for use in uses]
    retired = [bar for bar in picture.bars if bar.kind == figures.RETIRED and bar.end > bar.begin]
    assert len(retired) == 2


# ---- drawing ---------------------------------------------------------------------------------------------------------


def example() -> Picture:
    lanes = {("one", "sender"): "a thread", ("one", "receiver"): "", ("two", "far away"): ""}
    picture = Picture(lanes, {"busy": "#bfe0f5", "by a word": "#d55e00"}, "µs")
    picture.bars = [Bar(("one", "sender"), 0, 40, "busy", "sends"), Bar(("two", "far away"), 39, 40, "busy", "awakes")]
    picture.arrows = [Arrow(("one", "sender"), 0, ("one", "receiver"), 20, "by a word")]
    return picture


def test_a_picture_has_each_lane_each_text_and_each_kind(tmp_path: Path) -> None:
    draw(example(), tmp_path / "p.svg")
    text = (tmp_path / "p.svg").read_text()
    for shown in (
        "one",
        "two",
        "sender",
        "a thread",
        "receiver",
        "far away",
        "sends",
        "awakes",
        "busy",
        "by a word",
        "µs",
    ):
        assert shown in text, shown
    draw(example(), tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == text


def test_an_arrow_to_a_lane_that_is_missing_is_refused(tmp_path: Path) -> None:
    picture = example()
    del picture.lanes["one", "receiver"]
    with pytest.raises(KeyError, match="receiver"):
        draw(picture, tmp_path / "p.svg")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("vsync", [part for lane, role in figures.VSYNC.lanes.items() for part in (*lane, role)]),
        ("server", [part for lane, role in figures.SERVER.lanes.items() for part in (*lane, role)]),
        ("presentation", ["swapchain 1", "swapchain 3", "image 2", "present semaphore 1", "present semaphore 10"]),
    ],
)
def test_the_pictures_of_the_documents_name_every_lane_and_are_small(name: str, shown: list[str]) -> None:
    text = (figures.IMAGES / f"{name}.svg").read_text()
    comments = text.split("<!--")[1:]
    for each in shown:
        assert any(each in comment.split("-->")[0] for comment in comments), each
    assert len(text) < 250 * 1024
    assert f"(images/{name}.svg)" in (figures.IMAGES.parent / f"{name}.md").read_text()
