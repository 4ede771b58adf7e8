"""Swapchains while their Vulkan calls fail: each entry, each result, at each call of a run of twenty frames (A23)."""

from __future__ import annotations

import pytest
from support import faulty_frames
from support.fault_layer import FaultLayer, run_with_faults
from support.run_volumes import SOAK, unhurried

pytest_plugins = ["support.present_policies"]

pytestmark = [unhurried, pytest.mark.usefixtures("headless_surfaces")]

POLICIES = pytest.mark.parametrize(
    "fences", [pytest.param(True, id="by_fences"), pytest.param(False, id="by_acquires", marks=pytest.mark.full)]
)


def _fail_each(layer: FaultLayer, fences: bool, group: str) -> tuple[list[str], dict[str, int]]:
    return faulty_frames.fail_each(layer, fences, group, SOAK)


@pytest.mark.rule("A23", "A9", "A15")
@POLICIES
@pytest.mark.parametrize("group", faulty_frames.GROUPS)
def test_a_call_that_fails_ends_in_a_clean_error_and_leaks_nothing(group: str, fences: bool) -> None:
    wrong, met = run_with_faults(_fail_each, fences, group, messages=False, timeout=14_000 if SOAK else 110)
    print(met)
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)
