"""Engines of PyPI that tests need: a skip where one is missing, and a failure where CI runs (rule E16)."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from typing import NoReturn

import pytest

from support.display_servers import missing, without_displays
from support.required_parts import required

_RUNS = {"cpu", "lavapipe25"}  # where no page of an engine may be skipped


def need_engine(module: str) -> None:
    """Skip the calling test where an engine is not installed; fail it in a run of _RUNS that is required."""
    if importlib.util.find_spec(module) is not None:
        return
    _skip(f"{module} is not installed (pip install 'vkshare[engines]')")


def _skip(reason: str) -> NoReturn:
    run = os.environ.get("VKSHARE_TEST_DRIVER", "cpu")
    if run in _RUNS & required():
        pytest.fail(f"VKSHARE_TEST_REQUIRE names {run}, and {reason}", pytrace=False)
    pytest.skip(reason)


def need_display() -> None:
    """Skip, or fail, as need_engine() does, where no X server of the test's own can be started."""
    if lacking := missing("Xvfb", "openbox", "setpriv"):
        _skip(lacking)


def environment_of(request: pytest.FixtureRequest, *, headless: bool) -> dict[str, str]:
    """Return the environment of a program of an engine, without a display or on an Xvfb.

    An Xvfb has OpenGL of the CPU alone, which opens no memory of a real GPU.
    """
    if headless:
        return without_displays(dict(os.environ))
    if os.environ.get("VKSHARE_TEST_DRIVER") == "gpu":
        pytest.skip("Xvfb has OpenGL of the CPU alone")
    need_display()
    environment: dict[str, str] = request.getfixturevalue("x11").environment
    return environment


def need_qt() -> None:
    """Skip where Qt's platform xcb lacks a library of the system: Qt would abort the process."""
    for name in ("libxcb-cursor.so.0", "libxcb-keysyms.so.1", "libxcb-icccm.so.4", "libxkbcommon-x11.so.0"):
        try:
            ctypes.CDLL(name)
        except OSError as error:
            _skip(f"Qt's windows need it: {error} (make system-deps)")
