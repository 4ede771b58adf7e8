"""Engines of PyPI that tests need: a skip where one is missing, and a failure where CI runs (rule E16)."""

from __future__ import annotations

import importlib.util
import os

import pytest

from support.required_parts import required

_RUNS = {"cpu", "lavapipe25"}  # where no page of an engine may be skipped


def need_engine(module: str) -> None:
    """Skip the calling test where an engine is not installed; fail it in a run of _RUNS that is required."""
    if importlib.util.find_spec(module) is not None:
        return
    reason = f"{module} is not installed (pip install 'vkshare[engines]')"
    run = os.environ.get("VKSHARE_TEST_DRIVER", "cpu")
    if run in _RUNS & required():
        pytest.fail(f"VKSHARE_TEST_REQUIRE names {run}, and {reason}", pytrace=False)
    pytest.skip(reason)
