"""The names of drivers that tests and references use, from the most specific one to the most general one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vkshare import Adapter

# The values of --vks-driver: the adapter's kind, a part of its name, and a part of its driver's
# name and version.
DRIVERS = {
    "cpu": ("cpu", "", ""),
    "gpu": ("gpu", "", ""),
    "lavapipe": ("software", "llvmpipe", ""),
    "lavapipe22": ("software", "llvmpipe", "22."),
    "lavapipe25": ("software", "llvmpipe", "25."),
    "swiftshader": ("software", "SwiftShader", ""),
}
_MESA = "install Mesa's software driver (Debian: mesa-vulkan-drivers), or set VK_DRIVER_FILES to its lvp_icd.json"
_WAYS = {
    "cpu": "unset VKSHARE_BACKEND",
    "gpu": "install the GPU's Vulkan driver; `vkshare doctor` lists what is missing",
    "lavapipe": _MESA,
    "lavapipe22": f"{_MESA}, of Mesa 22",
    "lavapipe25": f"{_MESA}, of Mesa 25",
    "swiftshader": "set VK_DRIVER_FILES to the vk_swiftshader_icd.json of a SwiftShader build, which Chromium has",
}


def is_of(driver: str, adapter: Adapter) -> bool:
    """Return whether --vks-driver=`driver` selects this adapter."""
    kind, name, version = DRIVERS[driver]
    return adapter.kind == kind and name in adapter.name and version in str(adapter.driver)


def way_to_get(driver: str) -> str:
    """Return what a user does so that the driver is found."""
    return _WAYS[driver]


def slug(text: str) -> str:
    """Return the text as a name of tests and folders: lower case, its words joined by "-"."""
    return re.sub(r"\W+", "-", text.lower()).strip("-")


def levels(adapter: Adapter) -> tuple[str, ...]:
    """Return the folders of an adapter's references: the adapter's, its driver's with the version, its driver's.

    A GPU has the level "gpu" too. Each level inherits the references of the next one.
    """
    families = [name for name in ("cpu", "lavapipe", "swiftshader") if is_of(name, adapter)]
    first_word = slug(str(adapter.driver).partition(" ")[0]) or adapter.kind
    family = families[0] if families else first_word
    version = re.search(r"(\d+)\.\d+", str(adapter.driver)) if adapter.backend != "cpu" else None
    versions = [f"{family}{version[1]}"] if version else []
    kinds = ["gpu"] if adapter.kind == "gpu" else []
    return tuple(dict.fromkeys([slug(adapter.name), *versions, family, *kinds]))
