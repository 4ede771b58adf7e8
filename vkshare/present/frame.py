"""Frames: images that were acquired, to be drawn into and presented."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from vkshare import _native
from vkshare.errors import InvalidCallError
from vkshare.util.library_calls import lib

if TYPE_CHECKING:
    from vkshare.core.commands import CommandList
    from vkshare.core.view import View
    from vkshare.present.swapchain import Swapchain


class Frame(_native.Frame):
    """An image that ``Swapchain.acquire()`` handed out. ``swapchain.present(frame)`` shows it.

    Between the two, what is submitted to ``frame.view`` draws into it; afterwards that is a
    NotOwnerError. A frame that is dropped, or closed, unpresented is handed out again, with what
    was drawn. From the C core come:

    index
        Of the image, from 0.
    width, height
        Pixels. They are those of this frame: the swapchain may have been resized since.
    is_hidden
        The window has no pixels now (minimised): drawing goes to an invisible surface of 1x1.
    is_closed, close()
    """

    __slots__ = ()

    @property
    def view(self) -> View:
        """The surface to pass to commands as their target."""
        return self.swapchain._view_of(self)

    @property
    def acquired(self) -> int:
        """The VkSemaphore that is signalled when the image may be drawn into: for an engine's own vkQueueSubmit2.

        The engine's submission, to the device's queue and before ``present()``, waits for this one
        and signals `rendered`; it takes the image from layout UNDEFINED or PRESENT_SRC_KHR and
        leaves it in PRESENT_SRC_KHR. ``device.submit()`` sees to all that by itself. The first
        reading of either submits a batch to the queue: hold no lock of it. An engine that fails and
        submits nothing may present the frame, draw it by ``device.submit()`` or close it all the
        same; a frame that comes back has other semaphores.

        Raises
        ------
        InvalidCallError
            device.submit() drew into the frame already, or the frame was presented.
        UnsupportedError
            An offscreen ring has no semaphores.
        TimeoutError
            Another thread's present has had the queue for ten seconds.
        """
        return self.swapchain._take_semaphores(self)[0]

    @property
    def rendered(self) -> int:
        """The VkSemaphore that the engine's submission signals; see `acquired`.

        The present comes behind all that the queue was given.
        """
        return self.swapchain._take_semaphores(self)[1]

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Frame cannot be pickled: it is drawn and presented by the process that acquired it")

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "hidden" if self.is_hidden else f"image {self.index}"
        return f"<vkshare.Frame {self.width}x{self.height}, {state}>"

    if TYPE_CHECKING:

        @property
        def swapchain(self) -> Swapchain: ...


class FrameScope:
    """The context manager of ``swapchain.frame()``: acquires at the start of its block, presents at the end.

    Not reentrant.
    """

    __slots__ = ("_frame", "_swapchain", "_timeout")

    def __init__(self, swapchain: Swapchain, timeout: float | None) -> None:
        self._swapchain = swapchain
        self._timeout = timeout
        self._frame: Frame | None = None

    def __enter__(self) -> Frame:
        frame = self._swapchain.acquire(self._timeout)
        self._frame = frame
        return frame

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        frame, self._frame = self._frame, None
        if frame is None or frame.is_closed:
            return  # the block did it by itself
        if error is None:
            self._swapchain.present(frame)
        else:
            frame.close()  # half a frame is never shown


class Prepared:
    """The result of ``swapchain.prepare()``: a command list for each image, recorded at the image's first frame."""

    def __init__(self, swapchain: Swapchain, record: Callable[[CommandList, View], object]) -> None:
        self.swapchain = swapchain
        self._lists = _Lists(swapchain, record)

    def reset(self) -> None:
        """Drops all lists, so that each is recorded again."""
        self._lists.clear()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("what prepare() gave cannot be pickled: prepare() it in the process that presents")

    def __repr__(self) -> str:
        return f"<vkshare.Prepared for {self.swapchain!r}>"


class _Lists(dict[int, "CommandList"]):
    """The lists of prepare(), which C looks up by generation * VKS_SWAPCHAIN_IMAGES + index of an image."""

    def __init__(self, swapchain: Swapchain, record: Callable[[CommandList, View], object]) -> None:
        self._swapchain = swapchain
        self._record = record
        self._generation = 0

    def __missing__(self, key: int) -> CommandList:
        generation, index = divmod(key, lib.VKS_SWAPCHAIN_IMAGES)
        if self._generation != generation:
            self.clear()  # lists for destroyed images
            self._generation = generation
        commands = self._swapchain._record_for(index, self._record)
        if self._generation != generation:
            raise InvalidCallError(f"the swapchain was resized while commands for image {index} were recorded")
        self[key] = commands
        return commands
