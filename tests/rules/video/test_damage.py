"""Damaged, truncated, empty and hostile files. Rule Y5."""

from __future__ import annotations

import gc
import io
import os
import pickle
import random
import threading
from pathlib import Path

import pytest
from support import video_files
from support.run_volumes import rounds, seeded
from support.video_files import FRAMES, KINDS, TEN

import vkshare as vks
from vkshare.errors import VideoError
from vkshare.video import completeness

pytestmark = [pytest.mark.rule("Y5"), pytest.mark.no_driver]


EBML = b"\x1aE\xdf\xa3"  # the first element's id


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Ten small files."""
    folder, found = tmp_path_factory.mktemp("originals"), {}
    for name in TEN:
        path = folder / (name + KINDS[name].suffix)
        video_files.make(path, KINDS[name], 6)
        found[name] = path.read_bytes()
    return found


def taken(path: Path | io.BytesIO, device: vks.Device, errors: list[VideoError]) -> int:
    """Reads a file to its end, beyond its errors, and returns the number of its frames."""
    count = 0
    with vks.video.open(path, device, read_ahead=2) as clip:
        while True:
            try:
                with clip.frame(60):
                    count += 1
            except VideoError as error:
                errors.append(error)
            except EOFError:
                return count


def test_a_truncated_file_gives_its_frames_and_then_says_where_it_ends(vks_device: vks.Device, tmp_path: Path) -> None:
    path = tmp_path / "cut.mp4"
    video_files.make(path, KINDS["h264-mp4"], 50, change=lambda context: setattr(context, "gop_size", 10))
    with open(path, "rb") as file:
        data = file.read()
    index = data.index(b"mdat")
    moov = data.index(b"moov")
    assert moov > index  # the index is at the end: without it there is nothing to see
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(VideoError) as caught:
        vks.video.open(path, vks_device)
    assert caught.value.path == str(path)
    assert caught.value.position is None
    _first_index(data, path)
    errors: list[VideoError] = []
    assert 5 < taken(path, vks_device, errors) < 50
    assert errors
    assert errors[-1].position is not None
    assert 0.2 < errors[-1].position < 2
    assert "cut.mp4, after" in str(errors[-1])


@pytest.mark.parametrize("name", ["ffv1-rgb", "h264-mkv", "vp9-webm"])
@pytest.mark.parametrize("as_object", [False, True])
def test_a_matroska_file_that_was_cut_off_says_so_after_its_frames(
    vks_device: vks.Device, tmp_path: Path, name: str, as_object: bool
) -> None:
    path = tmp_path / ("cut" + KINDS[name].suffix)
    video_files.make(path, KINDS[name], 50)
    data = path.read_bytes()
    assert taken(path, vks_device, []) == 50
    path.write_bytes(data[: len(data) * 2 // 3])
    errors: list[VideoError] = []
    assert 0 < taken(io.BytesIO(path.read_bytes()) if as_object else path, vks_device, errors) < 50
    assert "bytes before its own end" in str(errors[-1])


@pytest.mark.parametrize("data", [b"", b"\x1a", EBML, EBML + b"\x80", EBML + b"\xff", bytes(9)])
def test_a_file_without_a_segment_lacks_nothing(data: bytes) -> None:
    assert completeness.missing_bytes(io.BytesIO(data)) == 0


def test_a_segment_says_how_much_is_missing() -> None:
    header = EBML + b"\x82ab\x18S\x80g"
    assert completeness.missing_bytes(io.BytesIO(header + b"\x84abcd")) == 0
    assert completeness.missing_bytes(io.BytesIO(header + b"\x84a")) == 3
    assert completeness.missing_bytes(io.BytesIO(header + b"\x40\x84a")) == 0x84 - 1
    assert completeness.missing_bytes(io.BytesIO(header + b"\x01" + b"\xff" * 7 + b"a")) == 0  # its writer was killed


def _first_index(data: bytes, path: Path) -> None:
    """Writes the file with its index in front, and without its last third."""
    import av

    whole = path.with_name("whole.mp4")
    whole.write_bytes(data)
    with av.open(str(whole)) as source, av.open(str(path), "w", options={"movflags": "faststart"}) as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    moved = path.read_bytes()
    assert moved.index(b"moov") < moved.index(b"mdat")
    path.write_bytes(moved[: len(moved) * 2 // 3])


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"", "cannot be read"), (b"no video", "cannot be read"), (bytes(100_000), "cannot be read")],
    ids=["empty", "text", "zeros"],
)
def test_a_file_that_is_no_video_is_refused(vks_device: vks.Device, tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "none.mp4"
    path.write_bytes(data)
    with pytest.raises(VideoError, match=words) as caught:
        vks.video.open(path, vks_device)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (copied.path, copied.position, copied.why, str(copied)) == (
        str(path),
        None,
        caught.value.why,
        str(caught.value),
    )


def test_sound_alone_is_no_video(vks_device: vks.Device, tmp_path: Path) -> None:
    import wave

    with wave.open(str(tmp_path / "tone.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(16_000))
    with pytest.raises(VideoError):
        vks.video.open(tmp_path / "tone.wav", vks_device)


@pytest.mark.parametrize(
    "text",
    [
        "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{path}\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile '{path}'\n",
    ],
    ids=["hls", "concat"],
)
@pytest.mark.parametrize("ending", ["mp4", "m3u8", "ffconcat"])
def test_a_file_that_names_others_is_refused(vks_device: vks.Device, tmp_path: Path, text: str, ending: str) -> None:
    other = tmp_path / "secret.ts"
    video_files.make(other, KINDS["mpeg2-ts"])
    playlist = tmp_path / f"list.{ending}"
    playlist.write_text(text.format(path=other.name))
    with pytest.raises(VideoError):
        vks.video.open(playlist, vks_device)


def test_a_header_that_declares_a_huge_picture_takes_no_memory(vks_device: vks.Device, tmp_path: Path) -> None:
    path = tmp_path / "huge.gif"
    video_files.make(path, KINDS["gif"], 2)
    data = bytearray(path.read_bytes())
    data[6:10] = b"\xff\xff\xff\xff"  # the logical screen's width and height
    path.write_bytes(data)
    with pytest.raises(VideoError, match=r"its size .*; allowed are .* 67,108,864 pixels"):
        vks.video.open(path, vks_device)


def mutated(data: bytes, dice: random.Random) -> bytes:
    """One of: bytes changed, a part left out, doubled or exchanged, the end left out."""
    what = dice.randrange(5)
    changed = bytearray(data)
    start = dice.randrange(len(changed))
    length = min(dice.choice((1, 4, 16, 256)), len(changed) - start)
    if what == 0:
        for _ in range(dice.choice((1, 3, 20))):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
    elif what == 1:
        del changed[start : start + length]
    elif what == 2:
        changed[start:start] = changed[start : start + length]
    elif what == 3:
        changed[start : start + length] = dice.randbytes(length)
    else:
        del changed[start:]
    return bytes(changed)


def test_mutated_files_end_in_frames_or_in_a_video_error(
    vks_device: vks.Device, originals: dict[str, bytes], tmp_path: Path
) -> None:
    dice = seeded()
    count = rounds(10_000, 60, full=1000)
    outcomes = {"whole": 0, "damaged": 0, "refused": 0}
    fds, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for number in range(count):
        name = dice.choice(TEN)
        path = tmp_path / f"mutated{KINDS[name].suffix}"
        path.write_bytes(mutated(originals[name], dice))
        errors: list[VideoError] = []
        try:
            frames = taken(path, vks_device, errors)
            outcomes["damaged" if errors or frames != 6 else "whole"] += 1
        except (VideoError, vks.UnsupportedError):  # the latter for a mutated size that no surface has
            outcomes["refused"] += 1
        assert threading.active_count() == threads, f"file {number}"
    print(f"\n{count} files: {outcomes}")
    assert outcomes["whole"] + outcomes["damaged"] > count // 10
    assert outcomes["refused"] + outcomes["damaged"] > count // 10
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= fds + 4  # what a process opens once


def test_a_picture_that_is_damaged_is_an_error_and_the_next_ones_come(vks_device: vks.Device, tmp_path: Path) -> None:
    path = tmp_path / "jpegs.avi"
    video_files.make(path, KINDS["mjpeg-avi"])
    parts = path.read_bytes().split(b"\xff\xd8\xff")  # each picture begins so
    parts[6] = bytes(400) + parts[6][400:]
    path.write_bytes(b"\xff\xd8\xff".join(parts))
    errors: list[VideoError] = []
    assert taken(path, vks_device, errors) == FRAMES - 1
    assert len(errors) == 1
    with vks.video.open(path, vks_device) as clip:
        for number in range(5):
            with clip.frame(60) as frame:
                assert frame.index == number
        with pytest.raises(VideoError), clip.frame(60):
            pass
        assert clip.damaged == 1
        clip.seek(0)
        with clip.frame(60) as frame:
            assert frame.pts == 0
