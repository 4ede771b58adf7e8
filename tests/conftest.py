"""What every test sees."""

from __future__ import annotations

import gc
import os
import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.patience import Measured

pytest_plugins = ["support.rule_results"]

HERE = Path(__file__).parent

# A shell that starts the tests in the background has them ignore Ctrl-C, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SELECTION = tomllib.loads((HERE / "selection.toml").read_text())
FULL_DRIVERS_OF_PROGRAMS = ("cpu", "lavapipe25", "gpu")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("selection").addoption(
        "--brief", action="store_true", help="leave out what the runs on other drivers have, as `make test` does"
    )


def pytest_collection_finish() -> None:
    # What collecting made stays: the collections that tests ask for need not go through it each time.
    gc.collect()
    gc.freeze()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Iterator[Measured]:
    """Measures in the serial part; what was measured again is in the results, and in the run's table."""
    if request.node.get_closest_marker("serial") is None:
        raise RuntimeError("what is measured is marked serial, so that nothing of ours runs beside it")
    measure = Measured()
    yield measure
    if measure.retries:
        request.node.user_properties.append(("retries", measure.retries))


def is_listed(item: pytest.Item, kind: str) -> bool:
    name = f"{item.path.relative_to(HERE)}::{item.name}"
    return name.startswith(tuple(SELECTION[kind]["modules"]))


def is_left_out(item: pytest.Item, driver: str) -> bool:
    """Whether `make test` leaves it to the runs on other drivers."""
    if driver in ("cpu", "gpu") or is_listed(item, "telling"):
        return False
    if driver == "lavapipe25":
        return is_listed(item, "once") or is_listed(item, "programs")
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    driver = os.environ.get("VKSHARE_TEST_DRIVER", "cpu")
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    for item in ours:
        is_program = is_listed(item, "programs") and item.get_closest_marker("every_driver") is None
        if is_listed(item, "slow"):
            item.add_marker(pytest.mark.slow)
        if driver != "cpu" and is_listed(item, "once"):
            item.add_marker(pytest.mark.skip(reason=SELECTION["once"]["reason"]))
        if is_program and driver not in FULL_DRIVERS_OF_PROGRAMS:
            item.add_marker(pytest.mark.skip(reason=SELECTION["programs"]["reason"]))
    if config.getoption("--brief"):
        left_out = {item for item in ours if is_left_out(item, driver)}
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
