"""tools/timeline.py: which frame it takes for the proof of which present, and the picture that is in the documents."""

from __future__ import annotations

from pathlib import Path

import pytest
import timeline

pytestmark = pytest.mark.no_driver

PICTURE = Path(timeline.__file__).resolve().parents[1] / "docs" / "images" / "presentation.svg"


def frames(*given: tuple[int, int, bool]) -> list[timeline.FrameOut]:
    """Of (chain, image, whether it is presented), in the order of their acquires."""
    made = []
    for number, (chain, image, is_presented) in enumerate(given):
        when = float(number)
        made.append(timeline.FrameOut(chain, image, when, 0, presented=when + 0.5 if is_presented else None))
    timeline.prove(made)
    return made


def test_a_present_is_proven_by_the_next_frame_of_its_image():
    assert [f.proof for f in frames((0, 0, True), (0, 1, True), (0, 0, True), (0, 1, False))] == [2, 3, None, None]


def test_what_is_left_of_a_retired_swapchain_waits_for_the_first_present_of_the_next():
    reported = frames((0, 0, True), (0, 1, True), (1, 0, True), (1, 1, True), (1, 0, False))
    assert [f.proof for f in reported] == [4, 4, 4, None, None]


def test_several_retired_swapchains_go_with_one_present():
    reported = frames((0, 0, True), (1, 0, True), (2, 1, True), (2, 1, True))
    assert [f.proof for f in reported] == [3, 3, 3, None]


def test_the_picture_of_the_documents_names_every_object_and_is_small():
    text = PICTURE.read_text()
    for name in (
        "swapchain 1",
        "swapchain 3",
        "image 2",
        "present semaphore 1",
        "present semaphore 10",
        "resized",
        "destroyed",
    ):
        assert f"<!-- {name}" in text or f"<!--  {name}" in text, name
    assert len(text) < 250 * 1024
