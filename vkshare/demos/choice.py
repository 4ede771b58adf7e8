"""Which adapter the demo runs on, and why that one."""

from __future__ import annotations

import os

import vkshare
from vkshare.core import adapter as _adapter
from vkshare.demos.options import Options

_SHARED_MEMORY = {"opaque_fd", "memfd"}


def choose(options: Options) -> tuple[vkshare.Adapter, str]:
    """The adapter, and a sentence's worth of reason.

    Raises
    ------
    ValueError, UnsupportedError
        As vkshare.open() does.
    """
    environment = [name for name in ("VKSHARE_BACKEND", "VKSHARE_ADAPTER") if os.environ.get(name)]
    if options.adapter is not None:
        return _adapter.choose(options.adapter, options.backend), f"--adapter {options.adapter} names it"
    if options.backend != "auto" or environment:
        given = f"--backend {options.backend}" if options.backend != "auto" else ""
        reason = " and ".join([*([given] if given else []), *(f"{name}={os.environ[name]}" for name in environment)])
        return _adapter.choose(None, options.backend), f"the best for {reason}"
    found = vkshare.adapters()
    usable = [each for each in found if each.capabilities.surface_memory & _SHARED_MEMORY] or found
    _adapter.check_validated(usable[0])
    return usable[0], _why(usable[0], found)


def _why(chosen: vkshare.Adapter, found: list[vkshare.Adapter]) -> str:
    kinds = {"gpu": "a GPU", "software": "a Vulkan driver in software", "cpu": "the CPU backend"}
    reason = f"the best of {len(found)} found: {kinds[chosen.kind]}"
    for each in found[: found.index(chosen)]:
        reason += f"; {each.name} cannot share surfaces"
    if chosen.kind != "gpu":
        reason += ", as there is no GPU that Vulkan can use" if chosen.kind == "software" else ", as there is no Vulkan"
        unusable = [f"{name}: {why}" for name, why in _adapter.skipped()]
        reason += f" ({'; '.join(unusable)})" if unusable else ""
    return reason
