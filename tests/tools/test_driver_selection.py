"""tests/support/driver_selection.py: the drivers on which a test runs, by its marks."""

from __future__ import annotations

import pytest
from support.driver_selection import is_left_out

pytestmark = pytest.mark.no_driver

DRIVERS = ("cpu", "lavapipe25", "lavapipe22", "swiftshader", "gpu")


@pytest.mark.parametrize(
    ("marks", "brief", "full"),
    [
        ("", {"cpu", "lavapipe25", "gpu"}, {*DRIVERS}),
        ("driver_dependent", {*DRIVERS}, {*DRIVERS}),
        ("no_driver", {"cpu"}, {"cpu"}),
        ("no_driver program", {"cpu"}, {"cpu"}),
        ("program", {"cpu", "gpu"}, {"cpu", "lavapipe25", "gpu"}),
        ("program every_driver", {"cpu", "gpu"}, {*DRIVERS}),
        ("program every_driver driver_dependent", {*DRIVERS}, {*DRIVERS}),
        ("slow wheel", {"cpu", "lavapipe25", "gpu"}, {*DRIVERS}),
        ("full", set(), {*DRIVERS}),
        ("full no_driver", set(), {"cpu"}),
    ],
)
def test_the_marks_of_a_test_decide_on_which_drivers_it_runs(marks: str, brief: set[str], full: set[str]) -> None:
    for is_brief, expected in ((True, brief), (False, full)):
        run = {driver for driver in DRIVERS if not is_left_out(set(marks.split()), driver, is_brief=is_brief)}
        assert run == expected
