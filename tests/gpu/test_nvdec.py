"""Video that NVIDIA's decoder leaves on the GPU. Rule Y4."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import video_files
from support.video_files import KINDS, Kind

import vkshare as vks
from vkshare.errors import UnsupportedError

pytestmark = [pytest.mark.vks_gpu, pytest.mark.rule("Y4")]

Open = Callable[..., vks.Device]
SIZE = (640, 368)  # NVDEC has no smaller side than some 144 pixels
FRAMES = 40


@pytest.fixture
def device(gpu: Open, cuda: None) -> vks.Device:
    found = gpu(name="video")
    if "nv12" not in found.capabilities.formats:
        pytest.skip(f"no nv12: {found.capabilities.reasons['format nv12']}")
    return found


def made(folder: Path, kind: Kind) -> Path:
    """A clip, or a skip where this PyAV has no such encoder."""
    path = folder / f"clip{kind.suffix}"
    try:
        video_files.make(path, kind, FRAMES, size=SIZE)
    except ValueError as error:
        pytest.skip(f"this PyAV cannot make {kind.encoder}: {error}")
    return path


CLIPS = {
    "h264": (KINDS["h264-mp4"], "nv12"),
    "h264 with B-frames": (KINDS["h264-mkv"], "nv12"),
    "hevc": (KINDS["hevc-mp4"], "nv12"),
    "hevc 10 bits": (KINDS["hevc-mp4"]._replace(pixel_format="yuv420p10le"), "p010"),
    "vp9": (KINDS["vp9-webm"], "nv12"),
}


@pytest.mark.parametrize("name", CLIPS)
def test_frames_are_those_of_the_cpus_decoder(device: vks.Device, tmp_path: Path, name: str) -> None:
    kind, form = CLIPS[name]
    path = made(tmp_path, kind)
    expected = video_files.decoded(path)
    before = device.statistics().copied_bytes
    found = []
    with vks.video.open(path, device, hardware=True) as clip:
        assert clip.is_hardware
        assert clip.format == form
        for frame in clip:
            planes = device.statistics().copied_bytes
            found.append(frame.surface.read_planes())
            before += device.statistics().copied_bytes - planes
    assert device.statistics().copied_bytes == before, "bytes went through the host"
    assert len(found) == len(expected) == FRAMES
    for (luma, chroma), samples in zip(found, expected, strict=True):
        shift = 6 if form == "p010" else 0
        assert np.array_equal(luma[..., 0], samples[0] << shift)
        assert np.array_equal(chroma, np.stack(samples[1:], axis=2) << shift)


def test_frames_stay_whole_while_the_gpu_is_busy_and_the_decoder_ahead(device: vks.Device, tmp_path: Path) -> None:
    path = made(tmp_path, KINDS["h264-mp4"])
    expected = video_files.decoded(path)
    with (
        vks.video.open(path, device, loop=True, read_ahead=2) as clip,
        device.create_surface(*SIZE, "nv12", color=clip.color) as kept,
        device.create_surface(2048, 2048) as busy,
        kept.access(),
        busy.access(),
    ):
        for number in range(3 * FRAMES):
            with clip.frame(60) as frame:
                commands = device.record()
                for step in range(40):
                    commands.clear(busy, (step / 40, 0, 0, 1))
                device.submit(commands.copy(frame.surface, kept))
            luma = kept.read_planes()[0]
            assert np.array_equal(luma[..., 0], expected[number % FRAMES][0]), f"frame {number}"


def test_a_seek_is_exact(device: vks.Device, tmp_path: Path) -> None:
    path = made(tmp_path, KINDS["h264-mkv"])
    expected = video_files.decoded(path)
    with vks.video.open(path, device, hardware=True) as clip:
        for number in (30, 3, 17, 0):
            clip.seek(Fraction(number, video_files.RATE))
            with clip.frame(60) as frame:
                assert np.array_equal(frame.surface.read_planes()[0][..., 0], expected[number][0])


def test_a_codec_without_a_decoder_on_the_gpu_is_decoded_by_the_cpu(device: vks.Device, tmp_path: Path) -> None:
    path = made(tmp_path, KINDS["ffv1-422"])
    with vks.video.open(path, device) as clip:
        assert not clip.is_hardware
        assert len(list(clip)) == FRAMES
    with pytest.raises(UnsupportedError, match="NVDEC"):
        vks.video.open(path, device, hardware=True)


def test_other_formats_are_converted_on_the_gpu(device: vks.Device, tmp_path: Path) -> None:
    path = made(tmp_path, KINDS["h264-mp4"])
    with vks.video.open(path, device, "rgba8unorm", hardware=True) as clip, clip.frame(60) as frame:
        hard = frame.surface.read().astype(int)
    with vks.video.open(path, device, "rgba8unorm", hardware=False) as clip, clip.frame(60) as frame:
        soft = frame.surface.read().astype(int)
    assert abs(hard - soft).max() <= 1


def test_torch_sees_a_decoded_frame(device: vks.Device, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    path = made(tmp_path, KINDS["h264-mp4"])
    expected = video_files.decoded(path)
    with (
        vks.video.open(path, device, hardware=True) as clip,
        device.create_surface(*SIZE, "nv12", tiling="linear", color=clip.color) as linear,
        vks.interop.cuda.open(linear) as shared,
    ):
        with clip.frame(60) as frame, linear.access(0, 1):
            device.submit(device.record().copy(frame.surface, linear))
        with shared.access(1, 0, stream=torch.cuda.current_stream()) as view:
            luma = torch.from_dlpack(view.planes[0]).cpu().numpy()
    assert np.array_equal(luma[..., 0], expected[0][0])
