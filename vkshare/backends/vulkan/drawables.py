"""Drawables: images as the C core records commands for them, and the errors where a driver cannot do a command."""

from __future__ import annotations

from typing import NoReturn

from vkshare.backends.base import ImageSpec
from vkshare.backends.drawing import Drawable
from vkshare.backends.vulkan.api import VK, address
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.physical import PhysicalDevice
from vkshare.errors import UnsupportedError

# vks_feature of native/record/record.h
_CAN_BLEND, _CAN_FILTER, _CAN_BLIT_FROM, _CAN_BLIT_TO, _HAS_RAW_VIEW = 1, 2, 4, 8, 16


def drawable(context: Context, spec: ImageSpec, image: int, view: object, raw_view: object, **kind: bool) -> Drawable:
    """The Drawable of a VkImage with those VkImageViews (None: it has none); `kind`: is_mappable, is_presentable."""
    handles = {"image": image, "view": address(view), "raw_view": address(raw_view)}
    return Drawable(**spec.drawable, features=_features(context, spec), **handles, **kind)


def _features(context: Context, spec: ImageSpec) -> int:
    key = spec.format.vk_format, spec.tiling
    if key not in context.features:
        has = context.physical.format_features(*key)
        flags = {
            _CAN_BLEND: VK.FORMAT_FEATURE_COLOR_ATTACHMENT_BLEND_BIT,
            _CAN_FILTER: VK.FORMAT_FEATURE_SAMPLED_IMAGE_FILTER_LINEAR_BIT,
            _CAN_BLIT_FROM: VK.FORMAT_FEATURE_BLIT_SRC_BIT,
            _CAN_BLIT_TO: VK.FORMAT_FEATURE_BLIT_DST_BIT,
        }
        context.features[key] = sum(bit for bit, flag in flags.items() if has & flag)
    return context.features[key]


def refuse_feature(physical: PhysicalDevice, spec: ImageSpec, feature: int, *, is_blit: bool) -> NoReturn:
    """UnsupportedError: a command needs that vks_feature of such an image."""
    if feature == _HAS_RAW_VIEW:
        raise UnsupportedError(
            f"blit to a swapchain of format {spec.format.name}",
            "its images have no view of the codes as they are stored",
            "draw_triangles() or composite() to it, or create the swapchain with another format",
        )
    if is_blit:
        what, hint = "blit", 'make the source with usage "sample" and the target with usage "render"'
    elif feature == _CAN_FILTER:
        what, hint = "a linear filter", 'draw with filter="nearest", or blit it to a surface of another format'
    else:
        what, hint = "blending", "draw on another format and blit() it"
    raise UnsupportedError(
        f"{what} of {spec.tiling} {spec.format.name} surfaces", f"{physical.name} ({physical.driver}) has none", hint
    )
