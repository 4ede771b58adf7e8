"""What every test sees."""

from __future__ import annotations

import gc
import os
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

# They need no driver, or are the same with each: the run on cpu has them, the others would only repeat it.
WITHOUT_A_DRIVER = (
    "backends/test_vulkan_shaders",
    "interop/test_cuda_ends",
    "interop/test_cuda_fences",
    "present/test_demo_stage",
    "test_bench_plot",
    "tools/",
)

# Whole programs and their arguments, signals and reports. cpu, lavapipe25 and a real GPU have all of it; what a driver
# draws in them is marked `every_driver`.
PROGRAMS = (
    "interop/test_demo_",
    "present/test_demo_",
    "test_cli",
    "test_demo",
    "test_readme",
    "test_serve",
    "test_testing",
    "test_trace",
)
DRIVERS_OF_PROGRAMS = ("cpu", "lavapipe25", "gpu")


def pytest_collection_finish() -> None:
    # What collecting made stays: the collections that tests ask for need not go through it each time.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    driver = os.environ.get("VKSHARE_TEST_DRIVER", "cpu")
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        module = str(item.path.relative_to(HERE))
        if module.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
        if driver != "cpu" and module.startswith(WITHOUT_A_DRIVER):
            item.add_marker(pytest.mark.skip(reason="it needs no driver: the run on cpu has it"))
        is_program = module.startswith(PROGRAMS) and item.get_closest_marker("every_driver") is None
        if is_program and driver not in DRIVERS_OF_PROGRAMS:
            item.add_marker(pytest.mark.skip(reason="it is the same program: cpu's and lavapipe25's runs have it"))
