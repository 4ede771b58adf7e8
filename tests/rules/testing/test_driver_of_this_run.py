"""A run on a driver that was not found would skip everything and look green: this test is what fails then."""

from __future__ import annotations

import os

import pytest

import vkshare as vks
from vkshare.testing.drivers import is_of

pytestmark = pytest.mark.driver_dependent


@pytest.fixture
def driver() -> str:
    name = os.environ.get("VKSHARE_TEST_DRIVER", "")
    if not name:
        pytest.skip("not started by the test runner (VKSHARE_TEST_DRIVER is not set)")
    return name


def test_the_driver_of_this_run_is_the_one_that_is_found(driver):
    found = vks.adapters()
    assert any(is_of(driver, a) for a in found), f"{driver} is not among {[(a.kind, a.name, a.driver) for a in found]}"


def test_only_the_driver_of_this_run_is_found(driver):
    if driver == "gpu":
        pytest.skip("a machine with a GPU may have several drivers")
    others = [a.name for a in vks.adapters() if a.kind != "cpu"]
    assert len(others) == (driver != "cpu"), f"besides {driver}: {others}"
