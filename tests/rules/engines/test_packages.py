"""vkshare.engines as a package: what it loads, and what a missing engine is."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.engine_packages import need_engine

from vkshare.engines import packages
from vkshare.errors import UnsupportedError

pytestmark = [pytest.mark.rule("E15"), pytest.mark.no_driver]

ENGINES = ("moderngl", "panda3d", "pyglet", "qt", "vtk")


def test_a_missing_engine_is_unsupported_and_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moderngl", None)
    with pytest.raises(
        UnsupportedError, match=r"vkshare\.engines\.moderngl .*moderngl cannot be imported.*'vkshare\[engines\]'"
    ):
        packages.load("moderngl", "moderngl")


@pytest.mark.rule("E16")
def test_a_missing_engine_is_a_failure_where_ci_runs_and_a_skip_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for run, names, outcome in (
        ("cpu", "cpu,lavapipe25", "Failed"),
        ("lavapipe25", "cpu,lavapipe25", "Failed"),
        ("swiftshader", "cpu,swiftshader", "Skipped"),
        ("cpu", "", "Skipped"),
    ):
        monkeypatch.setenv("VKSHARE_TEST_DRIVER", run)
        monkeypatch.setenv("VKSHARE_TEST_REQUIRE", names)
        with pytest.raises(BaseException, match="no_such_engine is not installed") as raised:
            need_engine("no_such_engine")
        assert type(raised.value).__name__ == outcome
        need_engine("pytest")


def test_importing_the_helpers_imports_no_engine() -> None:
    code = f"""
import sys
import vkshare as vks
for name in {ENGINES!r}:
    getattr(vks.engines, name)
loaded = {{module.partition(".")[0] for module in sys.modules}}
engines = "moderngl pyglet matplotlib PySide6 panda3d direct pyvista vtkmodules tkinter".split()
print(loaded & set(engines))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
