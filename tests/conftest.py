"""What every test sees."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

pytest_plugins = ["support.rule_results"]

HERE = Path(__file__).parent

# A shell that starts the tests in the background has them ignore Ctrl-C, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# They are about window systems, other APIs, whole programs and processes, or go through much of the same: where only
# the binary is in question (the wheel) they say nothing more.
SLOW = (
    "interop/test_demo_",
    "interop/test_gl",
    "present/test_demo_",
    "present/test_displays",
    "present/test_shm_",
    "present/test_window_",
    "present/test_windows_",
    "server/test_faults",
    "server/test_isolation",
    "test_deaths",
    "test_demo",
    "test_descriptors_from_strangers",
    "vsync/test_choosing",
    "vsync/test_x11_present",
    "test_serve",
    "test_trace",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and str(item.path.relative_to(HERE)).startswith(SLOW):
            item.add_marker(pytest.mark.slow)
