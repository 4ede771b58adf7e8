"""A swapchain's image, as command lists and stages take it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from vkshare.backends.base import ImageSpec, PlaneLayout
from vkshare.backends.vulkan import drawables
from vkshare.backends.vulkan.api import handle
from vkshare.backends.vulkan.context import Context
from vkshare.errors import ClosedError, UnsupportedError


class PresentableImage:
    """A VkImage of a VkSwapchainKHR, and its view. Image of backends/base.py.

    Neither is ours to destroy: the C core's swapchain does it. Between two lists it is in layout
    PRESENT_SRC_KHR.
    """

    stride = 0
    ownership_commands: tuple[int, ...] = (0, 0)
    initial_commands = 0
    is_mappable = False
    is_presentable = True

    planes = (PlaneLayout(0, 0),)

    def __init__(
        self,
        context: Context,
        spec: ImageSpec,
        image: int,
        view: int,
        pinned: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`pinned` is what keeps image and view alive while commands are recorded for them."""
        self.context = context
        self.pinned = pinned
        self.spec = spec
        self.image = image
        self.image_view = view
        self.handle: Any = handle("VkImage", image)
        self.view: Any = handle("VkImageView", view) if view else None
        # -srgb: a view of the codes as they are stored would need VK_KHR_swapchain_mutable_format.
        self.raw_view: Any = None if spec.format.is_srgb else self.view

        self.drawable = drawables.drawable(context, spec, image, self.view, self.raw_view, is_presentable=True)

    @property
    def handles(self) -> list[Any]:
        """The VkImages: one."""
        return [self.handle]

    @property
    def queue_families(self) -> list[int]:
        """The family of the queue that presents."""
        return [self.context.queue_family]

    def pixels(self) -> None:
        """The CPU does not see it."""

    def check_open(self) -> None:
        """ClosedError once its swapchain was replaced or closed. Asked under the context's lock."""
        if self.handle is None:
            raise ClosedError("a frame that the commands use is of a swapchain that was resized or closed")

    def check_export(self) -> None:
        """The C core refuses it first."""

    def export(self) -> NoReturn:
        raise UnsupportedError(
            "export() of a swapchain's image",
            "its memory is the presentation engine's",
            "draw on a surface of your own and copy() or blit() it to the frame",
        )

    def destroy(self) -> None:
        self.drawable.close()
        with self.context.lock:  # no thread records with the handle
            self.handle = self.view = self.raw_view = None
