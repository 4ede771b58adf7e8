"""Builds the Vulkan layer of tests/faults/layer, and says what a process needs in its environment to go through it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from support import cmake_build
from support.tree_paths import ROOT

BUILD = ROOT / "build" / "faults"
LIBRARY = BUILD / "VkLayer_vkshare_faults.so"
LAYER = "VK_LAYER_VKSHARE_faults"
VALIDATION = "VK_LAYER_KHRONOS_validation"


@cache
def build() -> Path:
    """The layer's library, built if its sources are newer. Takes seconds once, then some 30 ms a process."""
    cmake_build.build(BUILD, "vkshare_faults", "-DVKSHARE_FAULT_LAYER=ON")
    return LIBRARY


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
