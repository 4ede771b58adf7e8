"""The CPU backend's adapter, with its capabilities proven by a trial (rule X22)."""

from __future__ import annotations

import functools
import os
import platform

from vkshare import formats
from vkshare.backends import host_memory
from vkshare.backends.base import Adapter, Capabilities, ImageSpec, temporary
from vkshare.backends.cpu import memory
from vkshare.errors import UnsupportedError, VkshareError
from vkshare.util import fd_ops

_MAX_DIMENSION = 16384  # the rasteriser's fixed-point range with 8 sub-pixel bits
_SUBPIXEL_BITS = 8


@functools.cache
def adapter() -> Adapter:
    """The adapter "vkshare CPU". OSError: this process has no room for the trial, which is made again next time."""
    why = _trial()
    capabilities = Capabilities(
        tilings=frozenset() if why else frozenset({"linear"}),
        surface_memory=frozenset() if why else frozenset({"memfd"}),
        export_timelines=False,
        host_visible=not why,
        row_alignment=0 if why else host_memory.ROW_ALIGNMENT,
        max_dimension=_MAX_DIMENSION,
        max_timeline_difference=0,
        subpixel_bits=_SUBPIXEL_BITS,
        device_uuid=host_memory.UUID,
        driver_uuid=host_memory.UUID,
        formats=frozenset() if why else frozenset(formats.FORMATS),
        reasons=_reasons(why),
    )
    driver = f"vkshare rasteriser, {platform.machine()}"
    return Adapter("vkshare CPU", "cpu", "cpu", host_memory.UUID, driver, capabilities, rank=10)


def _reasons(why: str) -> dict[str, str]:
    reasons = {
        "optimal": "rows lie in order on the CPU backend",
        "opaque_fd": "memory of Vulkan drivers cannot be mapped without them",
        "export_timelines": "there are no semaphores: fences are shared pages",
    }
    return {**reasons, "linear": why, "optimal": why, "memfd": why} if why else reasons


def _trial() -> str:
    """Creates, exports and opens a surface, writes in one mapping and reads in the other. Why it failed, or ""."""
    spec = ImageSpec(5, 3, formats.get("rgba8unorm"), "linear", frozenset({"copy"}))
    try:
        with temporary(memory.create(spec)) as made, temporary(memory.open_memory(spec, made.export())) as opened:
            mark = os.urandom(16)
            written, read = made.pixels(), opened.pixels()
            assert written is not None
            assert read is not None
            written[: len(mark)] = mark
            return "" if read[: len(mark)] == mark else "two mappings of one memfd disagree"
    except UnsupportedError as error:
        return error.why
    except (OSError, VkshareError) as error:
        if isinstance(error, OSError) and error.errno in fd_ops.NO_ROOM:
            raise
        return str(error)
