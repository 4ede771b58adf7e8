"""tools/notifies.py: what it finds in traces of real runs, which round it draws, and the pictures in the documents."""

from __future__ import annotations

from pathlib import Path

import notifies
import pytest
from notifies import Arrow, Bar, Lane, Picture

pytestmark = pytest.mark.no_driver

IMAGES = Path(notifies.__file__).resolve().parents[1] / "docs" / "images"


def ways(picture: Picture, kind: int) -> set[tuple[str, str]]:
    """Who notifies whom so."""
    names = [lane.thread if lane.thread != "main" else lane.process for lane in picture.lanes]
    return {(names[arrow.source], names[arrow.target]) for arrow in picture.arrows if arrow.kind == kind}


def test_each_tick_goes_from_the_display_to_the_windows_and_to_the_other_process(tmp_path: Path) -> None:
    pictures = notifies.vsync_pictures(notifies.record("vsync", tmp_path / "vsync.json", 20))
    assert pictures
    for picture in pictures:
        source, slot, page = notifies._SOURCE, notifies._SLOT, notifies._PAGE
        assert ways(picture, slot) == {
            ("vkshare-vsync", "window 1"),
            ("vkshare-vsync", "window 2"),
            ("vkshare-vsync", "viewer"),
        }
        assert ways(picture, page) == {("vkshare-vsync", "vkshare-vsync")}
        if picture.lanes[0].process == "X server":
            assert ways(picture, source) == {("vkshare x11-present", "vkshare-vsync")}
        assert all(arrow.begin <= arrow.end for arrow in picture.arrows)
        reported = {arrow.target: arrow.end for arrow in picture.arrows}
        (there,) = (arrow for arrow in picture.arrows if arrow.kind == page)
        assert reported[there.target] <= reported[len(picture.lanes) - 1]  # the viewer's display tells its observer
        assert any(bar.name == "refresh" for bar in picture.bars)


def test_each_request_goes_to_the_loop_to_its_clients_worker_and_back(tmp_path: Path) -> None:
    # On a busy machine the work is done before the server hears of the sync, unless there is enough of it.
    found = (
        notifies.server_pictures(notifies.record("server", tmp_path / "server.json", 20, clears))
        for clears in (10, 100, 1000)
    )
    pictures = next(filter(None, found))
    for picture in pictures:
        assert ways(picture, notifies._REQUEST) == {("painter", "server"), ("visitor", "server")}
        assert ways(picture, notifies._HAND) == {("server", "vks-client-1"), ("server", "vks-client-2")}
        assert ways(picture, notifies._SUBMIT) == {("vks-client-1", "vkshare-cpu"), ("vks-client-2", "vkshare-cpu")}
        done = {("vks-client-1", "server"), ("vks-client-2", "server"), ("vkshare-cpu", "server")}
        assert ways(picture, notifies._DONE) == done
        assert ways(picture, notifies._REPLY) == {("server", "painter"), ("server", "visitor")}
        in_order = [arrow for arrow in picture.arrows if arrow.source != notifies._DEVICE]
        assert all(arrow.begin <= arrow.end for arrow in in_order)
        submit = [arrow.kind for arrow in sorted(in_order, key=lambda arrow: arrow.end) if arrow.whose == 0]
        assert submit[:2] == [notifies._REQUEST, notifies._HAND]
        sync = [arrow.kind for arrow in sorted(in_order, key=lambda arrow: arrow.end) if arrow.whose == 1]
        assert sync == [notifies._REQUEST, notifies._HAND, notifies._DONE, notifies._REPLY]


# ---- which one is drawn, and how ---------------------------------------------------------------------------------


def picture(end: float, *, is_clear: bool = True) -> Picture:
    """Three threads of two processes, of which one tells the others."""
    lanes = [Lane("one", "teller", "", (1, 1)), Lane("one", "hearer", "", (1, 2)), Lane("two", "far away", "", (2, 2))]
    reported = Picture(lanes, ["by a word", "by a letter"], ["the news"], "µs", "a step", is_clear=is_clear)
    reported.bars = [Bar(0, 0, end / 2, "tells"), Bar(1, -5, end / 2, "waits", is_waiting=True)]
    reported.arrows = [Arrow(0, 0, 1, end / 2, 0), Arrow(0, 1, 2, end, 1)]
    return reported


def test_the_quickest_of_the_clear_rounds_is_drawn() -> None:
    rounds = [picture(50), picture(30), picture(20, is_clear=False), picture(90)]
    best = notifies.choose(rounds)
    assert best is rounds[1]
    assert best.note == "the quickest of 3: 30 µs; the median takes 50 µs"


def test_where_no_round_is_clear_it_says_so() -> None:
    with pytest.raises(RuntimeError, match="none of 1 rounds"):
        notifies.choose([picture(20, is_clear=False)])


def test_a_picture_has_each_thread_each_time_and_each_kind_of_arrow(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    import notifies_chart

    notifies_chart.draw(picture(80), tmp_path / "p.svg")
    text = (tmp_path / "p.svg").read_text()
    for shown in ("teller", "hearer", "far away", "1  +40", "2  +79", "by a word", "by a letter", "the news"):
        assert f"<!-- {shown}" in text or f"   {shown} -->" in text, shown
    notifies_chart.draw(picture(80), tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("vsync", ("vkshare x11-present", "vkshare-vsync", "window 1", "window 2", "RefreshTimer", "VsyncBridge")),
        ("server", ("the loop", "vks-client-1", "vks-client-2", "vkshare-cpu", "call sync", "call no-op")),
    ],
)
def test_the_pictures_of_the_documents_name_every_thread_and_are_small(name: str, shown: tuple[str, ...]) -> None:
    text = (IMAGES / f"{name}.svg").read_text()
    comments = " ".join(line for line in text.splitlines() if "<!--" in line)
    for each in shown:
        assert each in comments, each
    assert len(text) < 250 * 1024
    assert f"(images/{name}.svg)" in (IMAGES.parent / f"{name}.md").read_text()
