"""VKSHARE_TEST_REQUIRE=cpu,lavapipe25,x11,... names what must not be missing: nothing may pass by being skipped."""

from __future__ import annotations

import os

import pytest


def required() -> set[str]:
    """Return the names that this run must have."""
    return {name.strip() for name in os.environ.get("VKSHARE_TEST_REQUIRE", "").split(",")} - {""}


def need(name: str, available: bool, reason: str) -> None:
    """Skip the calling test where `name` is not available; fail it where it is required."""
    if available:
        return
    if name in required():
        pytest.fail(f"VKSHARE_TEST_REQUIRE names {name}, and {reason}", pytrace=False)
    pytest.skip(reason)
