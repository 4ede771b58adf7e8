"""Videos at the ticks of a display. Rule Y6."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support import video_files
from support.child_processes import in_child
from support.shared_handles import wait_until
from support.video_files import FRAMES, KINDS, RATE

import vkshare as vks
from vkshare.vsync import Tick, TickFlags

pytestmark = [pytest.mark.rule("Y6"), pytest.mark.no_driver]

NONE = TickFlags(0)
SECOND = 1_000_000_000


@pytest.fixture
def reader(vks_device: vks.Device, tmp_path: Path) -> Iterator[vks.video.Reader]:
    """A clip of twelve frames, at 25 a second."""
    path = tmp_path / "clip.mkv"
    video_files.make(path, KINDS["h264-mkv"])
    with vks.video.open(path, vks_device, read_ahead=6) as opened:
        yield opened


def tick(number: int, rate: Fraction | int = 50, flags: TickFlags = NONE) -> Tick:
    """The tick of that number of a display, by a clock of the test's own."""
    output = 1000 + int(number * SECOND / rate)
    return Tick(0, number, output - 5000, output, 1 / Fraction(rate), "software", flags)


def shown(player: vks.video.Player, number: int, rate: Fraction | int = 50) -> int:
    """The index of the frame that a tick shows, once the decoder has been there."""
    let_it_decode(player)
    frame = player.frame_at(tick(number, rate))
    assert frame is not None
    return frame.index


def let_it_decode(player: vks.video.Player) -> None:
    """Until each surface of the reader's pipe is a decoded frame, or the file is at its end."""
    decoding, receiver = player._reader._decoding, player._reader._receiver
    wait_until(lambda: decoding._is_idle or receiver.statistics().committed - receiver.statistics().dequeued >= 3)


def test_each_frame_is_shown_for_its_duration(reader: vks.video.Reader) -> None:
    with vks.video.Player(reader) as player:
        indices = [shown(player, number) for number in range(2 * FRAMES)]
        assert indices == [number // 2 for number in range(2 * FRAMES)]
        assert player.is_over is False
        shown(player, 2 * FRAMES)
        assert player.is_over is True
        statistics = player.statistics()
    assert (statistics.shown, statistics.late, statistics.dropped, statistics.waited) == (FRAMES, 0, 0, 0)


def test_a_display_that_is_slower_than_the_video_drops_frames(reader: vks.video.Reader) -> None:
    with vks.video.Player(reader) as player:
        indices = [shown(player, number, Fraction(RATE, 2)) for number in range(FRAMES // 2)]
        assert indices == list(range(0, FRAMES, 2))
        assert player.statistics().dropped == FRAMES // 2 - 1
        assert player.statistics().late == 0


def test_after_a_seek_the_next_frame_is_on_time(reader: vks.video.Reader) -> None:
    with vks.video.Player(reader) as player:
        shown(player, 0)
        reader.seek(Fraction(8, RATE))
        wait_until(lambda: _frame(player, tick(100)).pts >= Fraction(8, RATE) - Fraction(1, 500))
        let_it_decode(player)
        assert _frame(player, tick(102)).pts == pytest.approx(9 / RATE, abs=0.002)
        assert player.statistics().late == 0


def _frame(player: vks.video.Player, at: Tick) -> vks.video.VideoFrame:
    frame = player.frame_at(at)
    assert frame is not None
    return frame


def test_after_a_gap_in_the_ticks_no_frame_is_dropped(reader: vks.video.Reader) -> None:
    with vks.video.Player(reader) as player:
        assert shown(player, 0) == 0
        let_it_decode(player)
        assert _frame(player, tick(5000, flags=TickFlags.DISCONTINUITY)).index == 1
        assert shown(player, 5002) == 2
        assert player.statistics().dropped == 0


def test_a_paused_player_keeps_its_frame(reader: vks.video.Reader) -> None:
    with vks.video.Player(reader) as player:
        assert shown(player, 0) == 0
        player.pause()
        assert [shown(player, number) for number in (1, 2, 50)] == [0, 0, 0]
        assert player.is_paused
        player.resume()
        assert [shown(player, number) for number in (51, 52, 54)] == [0, 1, 2]
        assert player.statistics().dropped == player.statistics().late == 0


def test_a_closed_player_gives_the_frames_back(reader: vks.video.Reader) -> None:
    player = vks.video.Player(reader)
    shown(player, 0)
    player.close()
    with pytest.raises(vks.ClosedError, match="player"):
        player.frame_at(tick(1))
    assert len(list(reader)) >= FRAMES - 2


def test_damaged_frames_are_counted_and_the_one_before_stays(vks_device: vks.Device, tmp_path: Path) -> None:
    path = tmp_path / "jpegs.avi"
    video_files.make(path, KINDS["mjpeg-avi"])
    parts = path.read_bytes().split(b"\xff\xd8\xff")
    parts[3] = bytes(400) + parts[3][400:]
    path.write_bytes(b"\xff\xd8\xff".join(parts))
    with vks.video.open(path, vks_device, read_ahead=6) as clip, vks.video.Player(clip) as player:
        indices, damaged = [], 0
        for number in range(12):
            let_it_decode(player)
            try:
                indices.append(_frame(player, tick(number)).pts * RATE)
            except vks.VideoError:
                damaged += 1
        assert damaged == player.statistics().damaged == 1
        assert 2 not in indices
        assert {0, 1, 3, 4} <= set(indices)


def test_a_gap_in_the_ticks_of_the_last_frame_shows_it_for_its_duration(reader: vks.video.Reader) -> None:
    reader.seek(Fraction(FRAMES - 1, RATE))
    with vks.video.Player(reader) as player:
        wait_until(lambda: player.frame_at(tick(0)) is not None)
        assert shown(player, 0) == shown(player, 1)
        player.frame_at(tick(5000, flags=TickFlags.DISCONTINUITY))
        assert player.is_over is False
        player.frame_at(tick(5001))
        assert player.is_over is False
        player.frame_at(tick(5002))
        assert player.is_over is True
        reader.seek(0)
        assert player.is_over is False


def test_a_gap_in_the_ticks_while_the_decoder_is_late_drops_nothing(
    reader: vks.video.Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = [reader.frame]

    def starved(timeout: float) -> Any:
        if not frames:
            raise vks.AcquireTimeout("the decoder is late")
        return frames.pop()(timeout)

    with vks.video.Player(reader) as player:
        let_it_decode(player)
        with monkeypatch.context() as patch:
            patch.setattr(reader, "frame", starved)
            assert _frame(player, tick(0)).index == 0
            assert _frame(player, tick(5000, flags=TickFlags.DISCONTINUITY)).index == 0
        assert [shown(player, number) for number in (5010, 5012)] == [1, 2]
        assert (player.statistics().late, player.statistics().dropped, player.statistics().waited) == (0, 0, 0)


def test_a_player_that_is_paused_before_its_first_tick_keeps_the_first_frame(reader: vks.video.Reader) -> None:
    with vks.video.Player(reader) as player:
        player.pause()
        assert player.is_paused
        assert [shown(player, number) for number in (3, 4, 60)] == [0, 0, 0]
        player.resume()
        assert [shown(player, number) for number in (61, 62)] == [0, 1]


def test_what_is_no_reader_is_refused() -> None:
    with pytest.raises(TypeError, match="reader"):
        vks.video.Player(5)  # type: ignore[arg-type]


def test_a_reader_that_is_closed_or_has_room_for_one_frame_is_refused(vks_device: vks.Device, tmp_path: Path) -> None:
    video_files.make(tmp_path / "clip.mp4", KINDS["h264-mp4"])
    with (
        vks.video.open(tmp_path / "clip.mp4", vks_device, read_ahead=1) as narrow,
        pytest.raises(ValueError, match="read_ahead is 1; allowed is 2 or more"),
    ):
        vks.video.Player(narrow)
    with pytest.raises(vks.ClosedError):
        vks.video.Player(narrow)


def test_what_is_no_tick_is_refused(reader: vks.video.Reader) -> None:
    with vks.video.Player(reader) as player, pytest.raises(TypeError, match=r"tick must be a Tick, .*, not float"):
        player.frame_at(1.0)  # type: ignore[arg-type]


@pytest.mark.rule("X11")
def test_a_forked_child_may_not_use_a_player_and_leaves_its_frames_alone(reader: vks.video.Reader) -> None:
    with vks.video.Player(reader) as player, reader.frame(30) as frame:
        assert shown(player, 0) == 1

        def body() -> None:
            for call in (lambda: player.frame_at(tick(1)), player.close):
                with pytest.raises(vks.InvalidCallError, match=r"before os\.fork\(\)"):
                    call()
            assert not player._is_lost()

        in_child(body)
        assert frame.index == 0
        assert shown(player, 2) == 2


def test_the_end_of_a_lost_device_is_quiet(reader: vks.video.Reader) -> None:
    player = vks.video.Player(reader)
    shown(player, 0)
    let_it_decode(player)
    shown(player, 1)  # one frame is shown, and the next one in hand
    reader.device._mark_lost()
    player.close()
    assert player.is_closed
    assert player._shown is player._next is None
