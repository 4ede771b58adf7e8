"""`vkshare record`: signals, and kills of the publisher and of the recorder, at random points (rule W8)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program_messages import without_false_messages
from support.recorded_files import boxes, colours_of, need_av, pixels_of, shown_at
from support.run_volumes import rounds, seeded, unhurried

import vkshare as vks
from vkshare import cli

pytest_plugins = ["support.published_names"]
pytestmark = [pytest.mark.program, pytest.mark.rule("W8"), unhurried]

TIMEOUT = 60.0  # seconds: only ends hangs
PUBLISHER = textwrap.dedent(
    """
    import sys, time, numpy, vkshare
    device = vkshare.open(backend=sys.argv[1])
    sender, descriptor = vkshare.pipe(device, 64, 48)
    receiver = vkshare.open_receiver(device, descriptor)
    sender.publish("frames")
    print("ready", flush=True)
    for number in range(1, 1 << 30):
        with sender.frame() as frame:
            frame.surface.write(numpy.full((48, 64, 4), (number & 255, number >> 8 & 255, 0, 255), numpy.uint8))
        with receiver.frame():
            time.sleep(0.004)
    """
)


@pytest.fixture(autouse=True)
def own_names(runtime: Path) -> None:
    """No name of another program is there."""
    need_av()


@pytest.fixture
def publisher(device: Any, own_names: None) -> Iterator[Any]:
    """publisher(): a process that publishes "frames", each of which has its number in red and green."""
    made: list[subprocess.Popen[str]] = []

    def begin() -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", PUBLISHER, device.backend], stdout=subprocess.PIPE, text=True)
        made.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield begin
    for each in made:
        each.kill()
        each.communicate()


def start(file: Path, *arguments: str, sighup: signal.Handlers = signal.SIG_DFL) -> subprocess.Popen[str]:
    before = signal.signal(signal.SIGHUP, sighup)  # which the recorder inherits: a run of the tests may ignore it
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "vkshare", "record", "frames", str(file), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGHUP, before)


def wait_for_bytes(file: Path, process: subprocess.Popen[str], count: int = 4000) -> None:
    """Wait until so much of the recording is on the disk."""
    limit = time.monotonic() + TIMEOUT
    while not file.exists() or file.stat().st_size < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.005)


def ended(process: subprocess.Popen[str], status: int = 0) -> tuple[str, str]:
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    assert process.returncode == status, (out, err)
    return out, without_false_messages(err)


def numbers_of(file: Path) -> list[int]:
    """The numbers that the publisher gave to the frames of a lossless file."""
    found = []
    for picture in pixels_of(file, "rgba8unorm"):
        assert (picture == picture[0, 0]).all()  # no picture is torn
        found.append(int(picture[0, 0, 0]) | int(picture[0, 0, 1]) << 8)
    return found


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("o.mp4", signal.SIGINT),
        ("o.mp4", signal.SIGTERM),
        ("o.mp4", signal.SIGHUP),
        *((name, signal.SIGINT) for name in ("o.webm", "o.mkv", "o.gif", "o-%05d.png")),
    ],
)
def test_a_signal_completes_the_file_with_status_0(
    publisher: Any, tmp_path: Path, name: str, number: signal.Signals
) -> None:
    publisher()
    process = start(tmp_path / name, "--json")
    first = tmp_path / name.replace("%05d", "00003")
    wait_for_bytes(first, process, 50)
    process.send_signal(number)
    out, err = ended(process)
    counts = json.loads(out)
    by = "Ctrl-C" if number == signal.SIGINT else number.name
    assert (err, counts["end"], counts["waiting"]) == ("", f"stopped by {by}", 0)
    frames = pixels_of(tmp_path / name, "rgba8unorm")
    assert len(frames) == counts["frames"] >= 1
    if name == "o.mp4":
        assert "moof" not in boxes(tmp_path / name)


def test_each_frame_is_in_the_file_or_counted(publisher: Any, tmp_path: Path) -> None:
    publisher()
    out, _ = ended(start(tmp_path / "o.mkv", "--json", "--frames", str(rounds(5000, 60))))
    counts = json.loads(out)
    numbers = numbers_of(tmp_path / "o.mkv")
    assert numbers == sorted(set(numbers))
    missing = numbers[-1] - numbers[0] + 1 - len(numbers)
    assert counts["missing"] + counts["dropped"] == missing
    times = np.diff(shown_at(tmp_path / "o.mkv"))
    assert (times > 0).all()


@pytest.mark.parametrize("name", ["o.mp4", "o.mkv"])
def test_a_publisher_that_is_killed_leaves_a_complete_file_and_status_0(
    publisher: Any, tmp_path: Path, name: str
) -> None:
    dice = seeded()
    for round in range(rounds(100, 2)):
        owner, file = publisher(), tmp_path / f"{round}-{name}"
        process = start(file)
        wait_for_bytes(file, process, 1)
        time.sleep(dice.uniform(0, 0.3))
        owner.kill()
        out, err = ended(process)
        assert err == ""
        assert "it ended: the source ended" in out
        assert f" {len(colours_of(file))} frames in " in out
        if name == "o.mkv":
            numbers = numbers_of(file)
            assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("name", ["o.mp4", pytest.param("o.webm", marks=pytest.mark.full), "o.mkv"])
def test_a_recorder_that_is_killed_leaves_a_file_that_can_be_read_and_a_publisher_that_goes_on(
    publisher: Any, tmp_path: Path, name: str
) -> None:
    dice = seeded()
    owner = publisher()
    for round in range(rounds(100, 2)):
        file = tmp_path / f"{round}-{name}"
        process = start(file)
        wait_for_bytes(file, process)
        time.sleep(dice.uniform(0, 0.5))
        process.kill()
        process.communicate()
        assert len(colours_of(file)) >= 1
        if name == "o.mkv":
            numbers = numbers_of(file)
            assert numbers == sorted(set(numbers))
    assert owner.poll() is None
    ended(start(tmp_path / f"next-{name}", "--frames", "3"))


def test_a_png_sequence_of_a_killed_recorder_has_whole_pictures_alone(publisher: Any, tmp_path: Path) -> None:
    publisher()
    process = start(tmp_path / "o-%05d.png")
    wait_for_bytes(tmp_path / "o-00005.png", process, 1)
    process.kill()
    process.communicate()
    numbers = numbers_of(tmp_path / "o-%05d.png")
    assert len(numbers) >= 5
    assert numbers == sorted(set(numbers))


def test_seconds_and_frames_end_it(publisher: Any, tmp_path: Path) -> None:
    publisher()
    ended(start(tmp_path / "o.mkv", "--frames", "4"))
    assert len(numbers_of(tmp_path / "o.mkv")) == 4
    out, _ = ended(start(tmp_path / "p.mkv", "--seconds", "0.3", "--rate", "10", "--json"))
    counts = json.loads(out)
    assert counts["end"] == "its seconds are over"
    assert 1 <= counts["frames"] <= 4
    assert shown_at(tmp_path / "p.mkv")[-1] < 0.3


# ---- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "arguments", "words"),
    [
        ("o.avi", [], ".mp4, .webm, .mkv, .gif, .png"),
        ("o.mp4", ["--codec", "ffv1"], "may have h264"),
        ("o.mp4", ["--rate", "-1"], "rate"),
        ("missing/o.mp4", [], "make it first"),
        ("there.mp4", [], "replace it with --force"),
        ("o.mp4", [], "published"),  # there is no such name
    ],
)
def test_wrong_arguments_are_one_line_and_status_2(
    tmp_path: Path, file: str, arguments: list[str], words: str, capsys: Any
) -> None:
    (tmp_path / "there.mp4").write_text("mine")
    assert cli.main(["record", "frames", str(tmp_path / file), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert (tmp_path / "there.mp4").read_text() == "mine"
    assert not (tmp_path / file).exists() or file == "there.mp4"


@pytest.mark.rule("W8")
@pytest.mark.parametrize("name", ["o.mkv", "o.mp4"])
@pytest.mark.parametrize("follows", ["nothing", "another"])
def test_a_file_that_was_removed_is_one_line_and_status_1(
    publisher: Any, tmp_path: Path, name: str, follows: str
) -> None:
    publisher()
    recorder = start(tmp_path / name, "--force")
    wait_for_bytes(tmp_path / name, recorder)
    (tmp_path / name).unlink()
    if follows == "another":
        (tmp_path / name).write_text("mine")
    recorder.send_signal(signal.SIGINT)
    _, err = ended(recorder, 1)
    (line,) = err.splitlines()
    assert "was removed or replaced while it was written" in line
    assert follows == "nothing" or (tmp_path / name).read_text() == "mine"


def test_nohup_keeps_a_recording_from_sighup(publisher: Any, tmp_path: Path) -> None:
    publisher()
    file = tmp_path / "o.mkv"
    recorder = start(file, sighup=signal.SIG_IGN)  # as nohup does
    wait_for_bytes(file, recorder)
    recorder.send_signal(signal.SIGHUP)
    wait_for_bytes(file, recorder, file.stat().st_size + 1)
    recorder.send_signal(signal.SIGINT)
    assert "stopped by Ctrl-C" in ended(recorder)[0]


def test_a_full_disk_is_one_line_and_status_1(publisher: Any, tmp_path: Path) -> None:
    publisher()
    os.symlink("/dev/full", tmp_path / "o.mkv")
    _, err = ended(start(tmp_path / "o.mkv", "--force"), 1)
    (line,) = err.splitlines()
    assert "No space left" in line


def test_without_a_frame_there_is_no_file_and_the_status_is_1(device: Any, tmp_path: Path) -> None:
    sender, descriptor = vks.pipe(device, 8, 8)
    with sender, descriptor, sender.publish("frames"):
        _, err = ended(start(tmp_path / "o.mp4", "--seconds", "0.2"), 1)
    assert "no frame" in err
    assert not (tmp_path / "o.mp4").exists()
