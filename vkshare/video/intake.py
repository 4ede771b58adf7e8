"""How a stream's frames become surfaces: the formats, the colour, and the copy of each frame."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from vkshare import color as colors
from vkshare import formats
from vkshare.color import Color
from vkshare.core import pixels, planes
from vkshare.errors import UnsupportedError
from vkshare.util import arguments
from vkshare.video import conversion, nvdec
from vkshare.video import pixels as video_pixels
from vkshare.video.decoder import Decoder
from vkshare.video.pictures import Pictures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vkshare.core.device import Device
    from vkshare.core.surface import Surface

_SLICE = 0.5  # seconds that a write waits for the work on its surface, before the thread looks whether it is to end


class Intake:
    """Writes frames to surfaces. write() is for the thread that decodes."""

    def __init__(
        self, device: Device, frame: Any, plan: video_pixels.Plan, format: str, color: Color, scratch: Surface | None
    ) -> None:
        self._device, self._plan, self._scratch = device, plan, scratch
        self._pixel_format = name_of(frame)
        self._copier = nvdec.Copier()
        self._own_color = color  # of the first frame
        self._codec = ""  # by which the others' colours are found; "": they are said to be the first one's
        self.is_hardware = nvdec.is_on_gpu(frame)
        self.width: int = frame.width
        self.height: int = frame.height
        self.format = format
        self.color = color if formats.get(format).is_planar else _as_rgb(color)
        rotation = int(getattr(frame, "rotation", 0) or 0)
        self.rotation = rotation if abs(rotation) <= 360 else 0  # a matrix of zeros has none

    @classmethod
    def of_first(cls, decoder: Decoder, pictures: Pictures, device: Device, format: str, color: Color | None) -> Intake:
        """Decide by a stream's first frame.

        Raises
        ------
        VideoError
            It is damaged.
        ValueError, TypeError, UnsupportedError
            The format or the colour does not fit.
        """
        intake = cls._planned(decoder, pictures, device, format, color)
        if color is None:
            intake._codec = decoder.codec
        return intake

    @classmethod
    def _planned(cls, decoder: Decoder, pictures: Pictures, device: Device, format: str, color: Color | None) -> Intake:
        frame = pictures.peek().frame
        name = name_of(frame)
        size = frame.width, frame.height
        plan = video_pixels.natural(name, _bits(frame), *size)
        if color is None:
            color = video_pixels.color_of(frame, decoder.codec)
        else:
            arguments.instance("color", color, Color)
        if format == "auto":
            plan = _supported(device, plan, frame)
            return cls(device, frame, plan, plan.format, color, None)
        wanted = formats.get(format)
        wanted.check_size(*size)
        if wanted.name == plan.format:
            return cls(device, frame, plan, wanted.name, color, None)
        if video_pixels.direct(name, wanted.name):
            return cls(device, frame, video_pixels.Plan(wanted.name, name), wanted.name, color, None)
        if plan.is_converted and video_pixels.packed(wanted.name):
            plan = video_pixels.Plan(wanted.name, video_pixels.packed(wanted.name))
            return cls(device, frame, plan, wanted.name, color, None)
        scratch = _surface(device, plan, frame, color)
        try:
            device.create_surface(*size, wanted).close()
        except BaseException:
            scratch.close()
            raise
        return cls(device, frame, plan, wanted.name, color, scratch)

    def write(self, frame: Any, surface: Surface) -> None:
        """Copy a frame into a surface that the device owns.

        Raises
        ------
        AcquireTimeout
            Earlier work on the surface has not ended; call again.
        VkshareError
            The device was lost, or the like.
        """
        frame = self._fitting(frame)
        if self._scratch is None:
            self._fill(frame, surface)
            return
        with self._scratch.access():
            self._fill(frame, self._scratch)
            self._device.submit(self._device.record().blit(self._scratch, surface))

    def _fitting(self, frame: Any) -> Any:
        """A frame of the first one's size, in the pixel format that is copied."""
        plan, size = self._plan, (self.width, self.height)
        color = video_pixels.color_of(frame, self._codec) if self._codec else self._own_color
        is_first_kind = (
            name_of(frame) == self._pixel_format
            and (frame.width, frame.height) == size
            and (color.matrix, color.range) == (self._own_color.matrix, self._own_color.range)
        )
        if is_first_kind and not plan.is_converted:
            return frame
        if is_first_kind and name_of(frame) == plan.pixel_format:
            return frame
        if nvdec.is_on_gpu(frame):
            frame = frame.reformat(format=name_of(frame))  # to the CPU's memory
        return conversion.converted(frame, *size, plan.pixel_format, color, self._own_color)

    def _fill(self, frame: Any, surface: Surface) -> None:
        if nvdec.is_on_gpu(frame):
            self._copier.copy(frame, surface)
            return

        def fill(targets: Sequence[video_pixels.Array]) -> None:
            if self._plan.is_converted:
                target = targets[0]
                target[...] = video_pixels.packed_pixels(frame, target.shape[2], target.dtype.str)
                return
            origin = video_pixels.LAYOUTS[frame.format.name]
            aim = video_pixels.SURFACES[surface.format]
            video_pixels.copy_planes(video_pixels.frame_planes(frame), origin, targets, aim)

        pixels.fill_planes(surface, planes.of(surface), fill, _SLICE)

    def close(self) -> None:
        self._copier.close()
        if self._scratch is not None:
            self._scratch.close()


def name_of(frame: Any) -> str:
    """The pixel format of a frame; of one on the GPU, that of its planes there."""
    form = frame.sw_format if nvdec.is_on_gpu(frame) else frame.format
    return str(form.name)


def _bits(frame: Any) -> int:
    form = frame.sw_format if nvdec.is_on_gpu(frame) else frame.format
    return max((component.bits for component in form.components), default=8)


def _as_rgb(color: Color) -> Color:
    """The colour of R', G' and B' that a matrix gave."""
    return dataclasses.replace(color, matrix="rgb", range="full", siting=colors.SRGB.siting)


def _surface(device: Device, plan: video_pixels.Plan, frame: Any, color: Color) -> Surface:
    given = color if formats.get(plan.format).is_planar else _as_rgb(color)
    return device.create_surface(frame.width, frame.height, plan.format, color=given)


def _supported(device: Device, plan: video_pixels.Plan, frame: Any) -> video_pixels.Plan:
    """The plan, or RGBA where the device has no such surfaces."""
    try:
        device.create_surface(frame.width, frame.height, plan.format).close()
    except UnsupportedError:
        if plan.is_converted:
            raise
        return video_pixels.Plan("rgba8unorm", "rgba")
    return plan
