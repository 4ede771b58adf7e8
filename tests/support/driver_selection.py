"""A pytest plugin: marks select the tests of a run on a driver; `--brief` selects those of `make test`.

The driver "cpu" runs every test. The Vulkan drivers differ from it, and from each other, in the memory that they
export and map, in how they synchronize, in presentation and in rounding. All that lies above is one and the same code.

                make test                                       make test-full
  cpu           all but full                                    everything
  lavapipe25    driver_dependent, and all but program           everything
  lavapipe22    driver_dependent                                all but program
  swiftshader   driver_dependent                                all but program
  gpu           everything, in both, where there is one

A test that is marked full is left to make test-full on each driver, one that is marked no_driver runs on cpu alone. The
mark every_driver keeps one test of a module of programs on each driver in make test-full. tests/support/run_volumes.py
has the volumes, tools/test_jobs.py the jobs.
"""

from __future__ import annotations

import os
from collections.abc import Set

import pytest

from support.tree_paths import TESTS

DRIVERS_OF_PROGRAMS = ("cpu", "lavapipe25", "gpu")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("selection").addoption(
        "--brief", action="store_true", help="leave out what the runs on other drivers have, as `make test` does"
    )


def is_left_out(marks: Set[str], driver: str, *, is_brief: bool) -> bool:
    """Return whether a test with these marks is left to the runs on other drivers, or to `make test-full`."""
    if "full" in marks and is_brief:
        return True
    if driver == "cpu":
        return False
    is_program = "program" in marks and "every_driver" not in marks
    if "no_driver" in marks or (is_program and driver not in DRIVERS_OF_PROGRAMS):
        return True
    if not is_brief or driver == "gpu" or "driver_dependent" in marks:
        return False
    return driver != "lavapipe25" or "program" in marks


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    driver = os.environ.get("VKSHARE_TEST_DRIVER") or "cpu"
    is_brief = config.getoption("--brief")
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        is_ours = item.path.is_relative_to(TESTS)
        (left_out if is_ours and is_left_out(marks, driver, is_brief=is_brief) else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
