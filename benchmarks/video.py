"""What do planes and video cost, against FFmpeg's conversions, a copy of the bytes, and PyAV that decodes alone?"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import vkshare
from benchmarks import compositor_load
from benchmarks.measure import Samples, Spread, Timed, ratios, repeated, spreads
from benchmarks.plan import Plan

_HD, _UHD = (1920, 1080), (3840, 2160)
_TURN = 20e-3  # seconds
_FRAMES = 240  # of the clip that is decoded, four seconds of it at 60 a second
_STREAMS = 16
_CONVERTED = "1080p nv12 to rgba8unorm, CPU backend"


def run(plan: Plan) -> None:
    with plan.noting("PyAV is not installed: pip install 'vkshare[video]'", ImportError):
        import av  # noqa: F401

        with contextlib.ExitStack() as stack:
            _conversions(plan, stack)
        with contextlib.ExitStack() as stack:
            _composites(plan, stack)
        _streams(plan, 2.0 if plan.quick else 60.0)
        with tempfile.TemporaryDirectory(prefix="vkshare-bench-") as folder:
            _decoding(plan, Path(folder))
            with plan.noting("4K HEVC by NVDEC", vkshare.VkshareError, ImportError):
                _on_a_gpu(plan, Path(folder))


def _against(plan: Plan, what: str, samples: Mapping[str, Samples], name: str, **more: Any) -> None:
    """Add a row of ours in terms of one of the others."""
    others = spreads({each: found for each, found in samples.items() if each != "ours"})
    figure = ratios(samples["ours"], samples[name])
    plan.ratio(what, figure, Spread.of(samples["ours"]), others[name], against=name, others=others, **more)


def noise(width: int, height: int) -> list[np.ndarray[Any, Any]]:
    """Planes of nv12."""
    random = np.random.default_rng(1)
    return [
        random.integers(16, 236, (height, width, 1), np.uint8),
        random.integers(16, 241, (height // 2, width // 2, 2), np.uint8),
    ]


# ---- conversions ---------------------------------------------------------------------------------------------------


def _conversions(plan: Plan, stack: contextlib.ExitStack) -> None:
    """One thread of each: the other kernels of the rasterizer have more when there are more."""
    device = stack.enter_context(vkshare.open(backend="cpu", name="bench", raster_threads=1))
    source, target = (stack.enter_context(device.create_surface(*_HD, form)) for form in ("nv12", "rgba8unorm"))
    planes = noise(*_HD)
    source.acquire(0)
    source.write_planes(planes)
    target.acquire(0)
    commands = device.record().blit(source, target)
    ways: dict[str, Timed] = {
        "ours": repeated(lambda: device.submit(commands).wait()),
        "swscale": repeated(_swscale(planes)),
        "memcpy": repeated(_copied(sum(plane.nbytes for plane in planes), 4 * _HD[0] * _HD[1])),
    }
    for _ in plan.alone():
        samples = plan.turns(_CONVERTED, ways, _TURN)
        _against(plan, _CONVERTED, samples, "swscale", most=0.5)
        _against(plan, _CONVERTED, samples, "memcpy", most=2.0)


def _rows(plane: Any) -> np.ndarray[Any, Any]:
    """A plane of PyAV's as (rows, bytes), with the padding of the rows."""
    return np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)


def _swscale(planes: list[np.ndarray[Any, Any]]) -> Any:
    """FFmpeg's conversion, exact as far as it goes."""
    import av
    from av.video import reformatter as to

    frame = av.VideoFrame(*_HD, "nv12")
    for plane, array in zip(frame.planes, planes, strict=True):
        rows = _rows(plane)
        rows[: array.shape[0], : _HD[0]] = array.reshape(array.shape[0], -1)
    converter = to.VideoReformatter()
    exact = to.Interpolation.BILINEAR | to.Interpolation.ACCURATE_RND

    def convert() -> None:
        converter.reformat(
            frame,
            format="rgba",
            src_colorspace=to.Colorspace.ITU709,
            dst_colorspace=to.Colorspace.ITU709,
            src_color_range=to.ColorRange.MPEG,
            dst_color_range=to.ColorRange.JPEG,
            interpolation=exact,
            threads=1,
        )

    return convert


def _copied(read: int, written: int) -> Any:
    """A copy of half the bytes that are read and written, from one half of memory into the other."""
    half = (read + written) // 2
    source, target = np.ones(half, np.uint8), np.empty(half, np.uint8)

    def copy() -> None:
        target[:] = source

    return copy


def _composites(plan: Plan, stack: contextlib.ExitStack) -> None:
    """4K nv12 over a target of its size: read in its planes, against a conversion and a composite."""
    what = "4K nv12 composite"
    adapters = [each for each in vkshare.adapters("vulkan") if "nv12" in each.capabilities.formats]
    if not adapters:
        plan.note(f"{what}: no Vulkan driver here has nv12")
        return
    device = stack.enter_context(vkshare.open(adapters[0], name="bench", validation=False))
    source, between, target = (
        stack.enter_context(device.create_surface(*_UHD, form)) for form in ("nv12", "rgba8unorm", "rgba8unorm")
    )
    for surface in (source, between, target):
        surface.acquire(0)
    source.write_planes(noise(*_UHD))
    direct = device.record().composite(source, target)
    twice = device.record().blit(source, between).composite(between, target)
    ways = {
        "ours": repeated(lambda: device.submit(direct).wait()),
        "converted first": repeated(lambda: device.submit(twice).wait()),
    }
    samples = plan.turns(what, ways, _TURN, times=4)
    name = adapters[0].name.split()[0]
    _against(plan, f"{what}, {name}", samples, "converted first", most=1 / 1.5)


def _streams(plan: Plan, seconds: float) -> None:
    """720p30 in a compositor, without the decoding: sixteen, against one."""
    loads = {}
    for count in (1, 2 if plan.quick else _STREAMS):
        plan.progress(f"{count} streams of 720p30 in a compositor, {seconds:g} s")
        loads[count] = compositor_load.run(count, seconds, streams=True)
    one, (count, many) = loads[1], max(loads.items())
    names = {"shown": "shown", "late": "lost", "superseded": "superseded", "composites": "composites"}
    others = {name: many.counts[counter] for name, counter in names.items()}
    others["ticks that the streams missed"] = many.undrawn
    plan.count(
        f"ticks that a compositor of {count} streams of 720p30 missed in {many.seconds:.0f} s",
        many.counts["missed"],
        most=one.counts["missed"],
        others=others | {"missed by one": one.counts["missed"]},
    )
    used = (many.counts["cpu"] + many.clients_cpu) / many.seconds
    plan.own("CPU time of all of them, a second", used, others={"of the streams": many.clients_cpu / many.seconds})


# ---- decoding ------------------------------------------------------------------------------------------------------


def _decoding(plan: Plan, folder: Path) -> None:
    """A clip of 1080p60, H.264: into surfaces, against PyAV that throws the frames away."""
    import av

    path, frames = folder / "clip.mp4", 20 if plan.quick else _FRAMES
    _make_clip(path, frames, _HD, "libx264", {"preset": "veryfast", "crf": "20"})
    with vkshare.open(backend="cpu", name="bench") as device:

        def into_surfaces() -> None:
            with vkshare.video.open(path, device) as clip:
                taken = sum(1 for _ in clip)
            assert taken == frames

        def alone() -> None:
            with av.open(str(path)) as container:
                stream = container.streams.video[0]
                stream.thread_type = "AUTO"
                taken = sum(1 for _ in container.decode(stream))
            assert taken == frames

        what = f"{frames} frames of 1080p H.264"
        ways = {"ours": repeated(into_surfaces), "PyAV alone": repeated(alone)}
        samples = plan.turns(what, ways, 0.0, times=8)
        _against(plan, f"{what} into surfaces", samples, "PyAV alone", most=1.05)


def _on_a_gpu(plan: Plan, folder: Path) -> None:
    """4K60 HEVC into surfaces, PyTorch and a composite, against NVDEC that decodes alone: what a frame costs more."""
    import av
    import torch
    from av.codec.hwaccel import HWAccel

    gpus = [each for each in vkshare.adapters("vulkan") if each.kind == "gpu"]
    if not gpus:
        raise vkshare.UnsupportedError("NVDEC", "no GPU was found")
    path, frames = folder / "clip4k.mp4", 20 if plan.quick else _FRAMES
    with contextlib.ExitStack() as stack:
        device = stack.enter_context(vkshare.open(gpus[0], name="bench", validation=False))
        target = stack.enter_context(device.create_surface(*_UHD))
        target.acquire(0)
        luma = torch.empty((_UHD[1], _UHD[0], 1), dtype=torch.uint8, device="cuda")
        options = {"preset": "ultrafast", "x265-params": "log-level=none"}
        _make_clip(path, frames, _UHD, "libx265", options)

        def whole() -> None:
            opened: dict[int, Any] = {}  # the reader's surfaces come round
            with vkshare.video.open(path, device, hardware=True) as clip:
                for frame in clip:
                    key = id(frame.surface)
                    if key not in opened:
                        opened[key] = vkshare.interop.cuda.open(frame.surface)
                    with opened[key].within(stream=torch.cuda.current_stream()) as view:
                        view.planes[0].copy_to(luma)
                        luma.clamp_(16, 200)
                        view.planes[0].copy_from(luma)
                    device.submit(device.record().composite(frame.surface, target))
                device.wait_idle()
                for each in opened.values():
                    each.close()

        current = {"primary_ctx": "0", "current_ctx": "1"}  # PyTorch's, which it makes current

        def alone() -> None:
            opened = HWAccel("cuda", options=dict(current), is_hw_owned=True)
            with av.open(str(path), hwaccel=opened) as container:
                stream = container.streams.video[0]
                stream.thread_type = "AUTO"
                taken = sum(1 for _ in container.decode(stream))
            torch.cuda.synchronize()
            assert taken == frames

        what = "4K HEVC by NVDEC to a surface, PyTorch and a composite"
        before = device.statistics().copied_bytes
        samples = plan.turns(what, {"ours": repeated(whole), "alone": repeated(alone)}, 0.0, times=8)
        more = [(one - other) / frames for one, other in zip(samples["ours"], samples["alone"], strict=True)]
        plan.own(f"{what}: a frame over decoding alone", Spread.of(more), most=0.2e-3)
        plan.own(f"{what}: a frame", Spread.of([each / frames for each in samples["ours"]]))
        plan.count("bytes of these through the host", float(device.statistics().copied_bytes - before), most=0.0)


def _make_clip(path: Path, frames: int, size: tuple[int, int], encoder: str, options: dict[str, str]) -> None:
    """Moving gradients with a little noise, so that the encoder has something to say."""
    import av

    random = np.random.default_rng(1)
    across = np.arange(size[0], dtype=np.int16)[None, :]
    down = np.arange(size[1], dtype=np.int16)[:, None]
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(encoder, rate=60, options=options)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for number in range(frames):
            frame = av.VideoFrame(*size, "yuv420p")
            for plane, (x, y) in zip(frame.planes, ((1, 1), (2, 3), (3, 2)), strict=True):
                rows = _rows(plane)
                height, width = plane.height, plane.width
                grain = random.integers(0, 6, (height, width), np.int16)
                wave = (across[:, :width] * x + down[:height] * y) // 4 + 3 * number
                rows[:height, :width] = (wave + grain) % 200 + 20
            frame.pts, frame.time_base = number, Fraction(1, 60)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
