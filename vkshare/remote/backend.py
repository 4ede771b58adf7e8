"""The Backend interface over a host: images whose pixels are at the viewer.

An image has memory here too, a memfd with holes, which is what descriptors carry. It identifies the
image in other processes of this machine, and a party of the CPU backend may write to it: the host
sends what it wrote (rule M15).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from vkshare import _native, formats
from vkshare.backends import host_memory
from vkshare.backends.base import (
    Adapter,
    AdoptedImageInfo,
    BufferSpec,
    Capabilities,
    ImageSpec,
    Memory,
    MemoryHandle,
    PlaneLayout,
)
from vkshare.backends.drawing import Drawable
from vkshare.core.opening import host_uuid
from vkshare.errors import UnsupportedError
from vkshare.remote import relay_messages as m
from vkshare.remote.host_connection import HostConnection, batch_of_stage
from vkshare.util import fd_ops, shared_memory
from vkshare.util.closing import on_error

_WHY = "the pixels are on another machine"
_MANY_STAGES = 16  # reads and writes under way; the host allows 64
_PATIENCE, _SLICE = 10.0, 0.002  # seconds: of a wait for one of them to end, and between two looks


class RemoteImage:
    """An image at the viewer, and its memory here."""

    image = image_view = 0  # handles of Vulkan
    ownership_commands: tuple[int, ...] = (0, 0)
    initial_commands = 0

    def __init__(self, connection: HostConnection, spec: ImageSpec, number: int, fd: int, stride: int, size: int):
        """Takes over the fd."""
        self.spec = spec
        self.stride = stride
        self.number = number  # at the host, of all programs
        self._connection = connection
        self._fd = fd
        self._size = size
        # The commands of a relayed list name images by this field (native/record/encode.c).
        self.drawable = Drawable(**{**spec.drawable, "image": number})

    @property
    def planes(self) -> tuple[PlaneLayout, ...]:
        """One plane, whose memory is the viewer's."""
        return (PlaneLayout(0, 0),)

    def pixels(self) -> None:
        return None

    def check_export(self) -> None:
        pass

    def export(self) -> MemoryHandle:
        return MemoryHandle(
            "memfd", fd_ops.duplicate(self._fd), self._size, 0, self.stride, False, bytes(16), bytes(16)
        )

    def destroy(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
            self._connection.drop(m.Op.CLOSE_IMAGE, self.number)


class RemoteStage:
    """Memory that this program and the host share for one read or write."""

    command_buffer = transfer_buffer = 0

    def __init__(
        self,
        connection: HostConnection,
        nbytes: int,
        image: RemoteImage,
        *,
        upload: bool,
        on_destroy: Callable[[], object],
    ) -> None:
        self._connection = connection
        self._on_destroy = on_destroy
        fd = shared_memory.memfd_create("vkshare:stage", -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE)
        try:
            self.data = memoryview(host_memory.map_pages(fd, nbytes))
            self._number = connection.number_of(m.Op.ADD_STAGE, m.NewStage(nbytes), (fd,))
        finally:
            os.close(fd)
        self.relayed = batch_of_stage(image.number, self._number, is_upload=upload)

    def destroy(self) -> None:
        number, self._number = self._number, 0
        if number:
            self._connection.drop(m.Op.DROP_STAGE, number)
            self._on_destroy()


class RemoteBackend:
    """One device's context at a host."""

    def __init__(self, connection: HostConnection) -> None:
        self.connection = connection
        self._lock = threading.Lock()
        self._stages = 0  # reads and writes under way
        self.adapter = _adapter(connection.context, os.fspath(connection.path))

    def native_handles(self) -> None:
        return None

    def engine_handles(self) -> NoReturn:
        raise UnsupportedError("Device.handles", "the VkDevice is on another machine", "record command lists")

    def create_image(self, spec: ImageSpec, *, is_tight: bool = False) -> RemoteImage:
        if spec.tiling != "linear":
            hint = 'use tiling="linear" or "auto": the viewer chooses its own'
            raise UnsupportedError(f"tiling={spec.tiling!r} on a remote device", "its descriptors have rows", hint)
        if spec.format.is_planar:
            why = "its pictures have one plane"
            raise UnsupportedError(f"a {spec} on a remote device", why, "blit() it to a surface of R, G and B here")
        stride, size = host_memory.layout(spec, 1 if is_tight else host_memory.ROW_ALIGNMENT)
        fd = shared_memory.memfd_create("vkshare:surface", size)
        with on_error(lambda: os.close(fd)):
            number = self.connection.number_of(m.Op.CREATE_IMAGE, _described(spec, stride, size), (fd,))
        return RemoteImage(self.connection, spec, number, fd, stride, size)

    def open_image(self, spec: ImageSpec, memory: MemoryHandle) -> RemoteImage:
        with on_error(lambda: os.close(memory.fd)):
            if memory.kind != "memfd":
                raise UnsupportedError(
                    "opening a surface of a driver on a remote device", _WHY, "open a surface of a remote device"
                )
            host_memory.check_layout(spec, memory)
            shared_memory.memory_check(memory.fd, is_memfd=True, size=memory.size)
            body = _described(spec, memory.stride, memory.size)
            number = self.connection.number_of(m.Op.OPEN_IMAGE, body, (memory.fd,))
        return RemoteImage(self.connection, spec, number, memory.fd, memory.stride, memory.size)

    def import_memory(self, spec: ImageSpec, memory: MemoryHandle) -> NoReturn:
        raise UnsupportedError("import_memory() on a remote device", _WHY, "write() an array to a surface")

    def adopt_image(self, spec: ImageSpec, info: AdoptedImageInfo) -> NoReturn:
        raise UnsupportedError("adopt_image() on a remote device", _WHY, "create_surface()")

    def share_array(self, spec: ImageSpec, stride: int, memory: memoryview) -> NoReturn:
        raise UnsupportedError("share_array() on a remote device", _WHY, "write() the array to a surface")

    def create_buffer(self, spec: BufferSpec) -> NoReturn:
        raise UnsupportedError("a buffer on a remote device", "only pictures travel", "use a surface")

    def open_buffer(self, spec: BufferSpec, memory: MemoryHandle) -> NoReturn:
        os.close(memory.fd)
        raise UnsupportedError("a buffer on a remote device", "only pictures travel", "use a surface")

    def open_file(self, spec: BufferSpec, fd: int) -> NoReturn:
        raise UnsupportedError("a mirror on a remote device", "only pictures travel", "write() to a surface of it")

    def compile(self, commands: _native.Recording, missing: tuple[int, int] | None) -> None:
        commands.device._set_recorder(None, self.adapter.capabilities.subpixel_bits)

    def refuse_feature(self, spec: ImageSpec, feature: int, *, is_blit: bool) -> NoReturn:
        raise AssertionError("features are checked at the viewer")

    def stage(self, nbytes: int, memory: Memory, *, upload: bool) -> RemoteStage:
        assert isinstance(memory, RemoteImage)
        self._wait_for_stages()
        stage = RemoteStage(self.connection, nbytes, memory, upload=upload, on_destroy=lambda: self._count(-1))
        self._count(1)
        return stage

    def _count(self, change: int) -> None:
        with self._lock:
            self._stages += change

    def _wait_for_stages(self) -> None:
        """Waits while many reads and writes are under way, so that a loop of writes is as fast as the network.

        The host refuses more in the end: those may wait for a surface that this very thread has to release.
        """
        deadline = time.monotonic() + _PATIENCE
        while self._stages >= _MANY_STAGES and time.monotonic() < deadline:
            self.connection.check()
            self.connection.reap_device()
            time.sleep(_SLICE)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.close()


def _described(spec: ImageSpec, stride: int, size: int) -> m.NewImage:
    return m.NewImage(spec.width, spec.height, spec.format.name, tuple(sorted(spec.usage)), stride, size)


def _adapter(context: m.Context, path: str) -> Adapter:
    known = frozenset(name for name in context.formats if name in formats.FORMATS)
    reasons = {
        "optimal": "descriptors of remote surfaces have rows in order",
        "host_visible": _WHY,
        "opaque_fd": _WHY,
        "export_timelines": "fences are shared pages on the application's machine",
    }
    capabilities = Capabilities(
        tilings=frozenset({"linear"}),
        surface_memory=frozenset({"memfd"}),
        export_timelines=False,
        host_visible=False,
        row_alignment=host_memory.ROW_ALIGNMENT,
        max_dimension=context.max_dimension,
        max_timeline_difference=0,
        subpixel_bits=context.subpixel_bits,
        device_uuid=host_memory.UUID,
        driver_uuid=host_memory.UUID,
        formats=known,
        reasons=reasons,
    )
    return Adapter(context.adapter, "remote", "remote", host_uuid(path), "vkshare remote", capabilities, host=path)
