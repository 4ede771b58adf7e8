"""Builds the Vulkan layer of tests/faults, and says what a process needs in its environment to go through it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "faults"
LIBRARY = BUILD / "VkLayer_vkshare_faults.so"
LAYER = "VK_LAYER_VKSHARE_faults"
VALIDATION = "VK_LAYER_KHRONOS_validation"


@cache
def build() -> Path:
    """The layer's library, built if its sources are newer. Takes seconds once, then some 30 ms a process."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        configured = BUILD / "CMakeCache.txt"
        if configured.exists() and f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n" not in configured.read_text():
            configured.unlink()  # the tree was moved or copied
        if not configured.exists():
            _run("cmake", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}", "-S", str(ROOT), "-B", str(BUILD),
                 "-DVKSHARE_PYTHON=OFF", "-DVKSHARE_FAULT_LAYER=ON")  # fmt: skip
        _run("ninja", "-C", str(BUILD), "vkshare_faults")
    return LIBRARY


def _tool(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise RuntimeError(f"there is no {name} beside {sys.executable} nor on PATH: run make venv")
    return found


def _run(tool: str, *arguments: str) -> None:
    done = subprocess.run([_tool(tool), *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"the fault layer does not build:\n{done.stdout}")


def environment(
    base: Mapping[str, str] | None = None, *, faults: str = "", implicit: bool = False, validation: str = ""
) -> dict[str, str]:
    """The environment of a process whose Vulkan goes through the layer.

    `faults`: statements that hold from its start. `implicit`: the layer is an implicit one, as it must be to hide
    instance extensions. `validation`: "above" or "below" puts the Khronos validation layer there, between the
    application and the faults, or between these and the driver; "": where the application itself enables it (the
    loader puts it below).
    """
    build()
    env = dict(os.environ if base is None else base)
    env["VKSHARE_FAULTS"] = faults
    names = [] if implicit else [LAYER]
    if validation:
        names.insert(0 if validation == "above" else len(names), VALIDATION)
    if names:
        env["VK_INSTANCE_LAYERS"] = ":".join(names)
    if implicit:
        env["XDG_DATA_HOME"] = str(BUILD / "implicit")
        env["VKSHARE_FAULT_LAYER"] = "1"
        env["VK_LOADER_LAYERS_ENABLE"] = LAYER  # wins over VK_LOADER_LAYERS_DISABLE=~implicit~
        return env
    # Loaders before 1.3.211 know no VK_ADD_LAYER_PATH, and later ones ignore it beside VK_LAYER_PATH.
    variable = "VK_LAYER_PATH" if env.get("VK_LAYER_PATH") else "VK_ADD_LAYER_PATH"
    env[variable] = ":".join(filter(None, [str(BUILD / "explicit"), env.get(variable, "")]))
    return env
