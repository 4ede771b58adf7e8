"""Drawables and recorders, which the backends give to the C core so that it compiles lists (native/record/record.h)."""

from __future__ import annotations

from typing import Any

from vkshare.util.library_calls import LibraryObject, check, ffi, lib


class Drawable(LibraryObject):
    """The properties and Vulkan handles of an image, as commands use it: the fields of vks_drawable_info."""

    def __init__(self, **fields: Any) -> None:
        self._make("vks_drawable", "Drawable", lib.vks_drawable_create, ffi.new("vks_drawable_info *", fields))

    def give_to(self, surface: Any) -> None:
        """Let commands be recorded for a Surface, whose image this is. Once."""
        surface._set_drawable(self._capsule("vks_drawable"))

    def close(self) -> None:
        """Call before the image is destroyed: no further command uses it. Idempotent."""
        lib.vks_drawable_close(self._pointer)


class Recorder(LibraryObject):
    """Compiles the command lists of one VkDevice to command buffers: the fields of vks_recorder_info."""

    def __init__(self, *, get_device_proc_addr: int, **fields: Any) -> None:
        info = ffi.new("vks_recorder_info *", fields)
        info.get_device_proc_addr = ffi.cast("void *", get_device_proc_addr)
        self._make("vks_recorder", "Recorder", lib.vks_recorder_create, info)

    def give_to(self, device: Any) -> None:
        """Have the lists of a Device compiled by it; a second one is left out."""
        device._set_recorder(self._capsule("vks_recorder"), 8)  # the bits are for the rasteriser

    def set_pipeline(self, number: int, format: int, pipeline: int) -> None:
        """Register a VkPipeline, which stays its maker's."""
        check(lib.vks_recorder_set_pipeline(self._pointer, number, format, pipeline), "Recorder.set_pipeline")

    def end(self) -> map[None]:
        """Return an iterator whose first step destroys what the recorder made, in one call in C. Keep the recorder."""
        return map(lib.vks_recorder_close, (self._pointer,))

    def statistics(self) -> dict[str, int]:
        """Return how much it made."""
        out = ffi.new("vks_recorder_statistics *")
        lib.vks_recorder_get_statistics(self._pointer, out)
        return {name: getattr(out, name) for name in ("made", "unused", "sets", "vertex_bytes")}
