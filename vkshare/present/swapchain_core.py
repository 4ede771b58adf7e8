"""The swapchain of the C core: what no frame calls (native/present/swapchain.h). vkshare._native has the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from vkshare import _native
from vkshare.errors import InvalidCallError
from vkshare.util import arguments, library_calls
from vkshare.util.library_calls import (
    NotInitialised,
    borrow_fd,
    cell_capsule,
    check,
    ffi,
    fields,
    finish,
    lib,
    make,
    pointer,
)


class SwapchainCore(_native.Swapchain):
    """A swapchain whose methods are functions of swapchain.h.

    `options`: the numbers of a vks_swapchain_info. `vulkan`: the arguments of _present_info();
    None: a ring of offscreen images, which the subclass makes.
    """

    _is_closed: Any = NotInitialised()

    def __init__(
        self,
        device: _native.Device,
        frame_type: type[_native.Frame],
        options: Mapping[str, int],
        vulkan: Mapping[str, Any] | None = None,
    ) -> None:
        present_info = _present_info(**vulkan) if vulkan is not None else ffi.NULL
        owner = pointer("vks_device *", device)
        info = _complete("vks_swapchain_info", {**options, "device": owner, "vulkan": present_info})
        cell = make("vks_swapchain", "Device.create_swapchain", lib.vks_swapchain_create, info)
        asks_server = vulkan is not None and not vulkan["sizes_itself"]
        super().__init__(device, cell_capsule("vks_swapchain", cell), frame_type, asks_server)
        self._frame_type, self._is_closed = frame_type, False

    @property
    def _core(self) -> Any:
        return pointer("vks_swapchain *", self)

    @property
    def is_closed(self) -> bool:
        """Whether close() ran."""
        return bool(self._is_closed)

    def frame_fd(self) -> int:
        """Returns an fd that is readable while ``frame(timeout=0)`` would not raise TimeoutError.

        For other event loops: use it only to poll. The swapchain owns it, and closes it when the
        object ends. The first call starts a thread that acquires ahead of this program, because
        drivers have no fd for an image; without that call there is no thread. A close, a loss of
        the window or of the device make it readable, and acquire() raises the error.

        After a resize, and where another thread acquires first, the fd may be readable until the
        next acquire() raises TimeoutError. While frames are drawn, an image that the driver has
        free is noticed within 4 ms. A window without pixels has a frame every 50 ms.

        Returns
        -------
        int
            The file descriptor, the same for each call.

        Raises
        ------
        OSError
            Too many file descriptors are open.
        """
        return borrow_fd(partial(lib.vks_swapchain_frame_fd, self._core), "Swapchain.frame_fd")

    def _close(self) -> None:
        core, self._is_closed = self._core, True
        check(finish(lib.vks_swapchain_try_close, core), "Swapchain.close")
        self._acquired_hook = self._presenting_hook = self._window_check = None

    def _lose(self) -> None:
        """Its window is gone; a Window calls it."""
        lib.vks_swapchain_lose(self._core)

    def _resize(self, width: int, height: int) -> None:
        check(lib.vks_swapchain_resize(self._core, width, height), "Swapchain.resize")

    def _set_mode(self, present_mode: int, pace: int) -> None:
        """`pace`: ns from frame to frame, 0: none."""
        lib.vks_swapchain_set_pace(self._core, pace)
        check(lib.vks_swapchain_set_mode(self._core, present_mode), "Swapchain.present_mode")

    def _retarget(self, surface: int) -> None:
        """Show the frames on another VkSurfaceKHR; 0: none for now."""
        check(finish(lib.vks_swapchain_retarget, self._core, surface), "Swapchain.retarget")

    def _prepare(self) -> None:
        """Make the VkSwapchainKHR now, unless the window has no pixels."""
        lib.vks_clear_error()
        status = finish(lib.vks_swapchain_prepare, self._core, lib.VKS_FOREVER)
        if status != lib.VKS_HIDDEN:
            check(status, "Device.create_swapchain")

    def _counters(self) -> dict[str, int]:
        """Return vks_swapchain_statistics."""
        out = ffi.new("vks_swapchain_statistics *")
        lib.vks_swapchain_get_statistics(self._core, out)
        return fields(out)

    # ---- images ---------------------------------------------------------------------------------------------------

    def _image(self, index: int, generation: int) -> tuple[int, int, int, int]:
        """Return VkImage, VkImageView, width, height."""
        arguments.integer("index", index, 0, lib.VKS_SWAPCHAIN_IMAGES - 1)
        out = ffi.new("vks_frame_image *")
        check(finish(lib.vks_swapchain_image, self._core, index, generation, out), "Swapchain")
        return out.image, out.view, out.width, out.height

    def _new_offscreen(self, width: int, height: int, image_count: int) -> None:
        """Replace the offscreen images."""
        generation = ffi.new("uint64_t *")
        status = finish(lib.vks_swapchain_new_offscreen, self._core, width, height, image_count, generation)
        check(status, "Swapchain")

    def _attach(self, index: int, generation: int, surface: _native.Surface) -> None:
        """Make a new surface, without owner, that of the image."""
        arguments.instance("surface", surface, _native.Surface)
        address = pointer("vks_surface *", surface)
        check(finish(lib.vks_swapchain_attach, self._core, index, generation, address), "Swapchain")
        self._note_surface(index, generation, surface)

    def _pinned(self, generation: int) -> AbstractContextManager[None]:
        """Inside, the images of that generation live."""
        return _pinned(self._core, generation)

    # ---- frames ---------------------------------------------------------------------------------------------------

    def _acquire_shown(self, timeout: float | None) -> Any:
        """Return a frame for capture() to read and close. Its image may have no Surface yet."""
        core, deadline = self._core, _native.deadline(timeout)
        frame: Any = self._frame_type(self, 0, 0)
        lib.vks_clear_error()
        # C makes it the image's frame: whatever interrupts this, the frame returns the image.
        status = finish(lib.vks_swapchain_acquire_shown, core, deadline, pointer("vks_frame *", frame))
        check_acquired(status, "Swapchain.capture", timeout)
        return frame

    def _take_semaphores(self, frame: _native.Frame) -> tuple[int, int]:
        """Return the VkSemaphores for which an engine's submission waits, and that it signals."""
        arguments.instance("frame", frame, _native.Frame)
        if frame.swapchain is not self:
            raise InvalidCallError("the frame is of another swapchain: present it there")
        if frame.is_closed:
            raise InvalidCallError("the frame was presented or closed already: acquire() another")
        out = ffi.new("uint64_t[2]")
        call, address = lib.vks_swapchain_take_semaphores, pointer("vks_frame *", frame)
        check(finish(call, self._core, address, out, out + 1), "Frame")
        return out[0], out[1]


@contextlib.contextmanager
def _pinned(core: Any, generation: int) -> Iterator[None]:
    pin = ffi.gc(ffi.new("vks_swapchain **"), lib.unpin)
    try:
        check(lib.pin(core, generation, pin), "Frame")
        yield
    finally:
        ffi.release(pin)  # at once: a traceback may keep this frame


def check_acquired(status: int, what: str, timeout: float | None) -> None:
    """Raise the reason why no frame was acquired: the core's, or else that the timeout is over."""
    if lib.vks_last_error().status == status:
        check(status, what)
    library_calls.check(status, what, timeout)


def _present_info(*, get_capabilities: int, by_fences: int, modes: tuple[int, ...], **values: int) -> Any:
    """Return a vks_present_info; `values`: its other numbers."""
    arguments.instance("modes", modes, tuple)
    arguments.integer("len(modes)", len(modes), 0, lib.VKS_SWAPCHAIN_MODES)
    policies = lib.VKS_PRESENTS_BY_ACQUIRES, lib.VKS_PRESENTS_BY_FENCES
    found = {
        "get_capabilities": ffi.cast("void *", library_calls.u64("get_capabilities", get_capabilities)),
        "policy": policies[arguments.integer("by_fences", by_fences, 0, 1)],
        "modes": modes,
        "n_modes": len(modes),
        "surface_format": 0,  # Python attaches the surfaces
    }
    return _complete("vks_present_info", values | found)


def _complete(kind: str, values: dict[str, Any]) -> Any:
    """Make a structure that has no other fields. TypeError, OverflowError: one is missing, or has no such value."""
    if wrong := {name for name, _ in ffi.typeof(kind).fields} ^ values.keys():
        raise TypeError(f"{kind} has no such fields, or needs them: {', '.join(map(str, wrong))}")
    return ffi.new(f"{kind} *", values)
