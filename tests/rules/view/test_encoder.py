"""From a pipe's frames to the bytes that viewers get, and back to pixels (rules W3 and W4)."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.access_patterns import resident_kib
from support.run_volumes import rounds, unhurried

import vkshare as vks
from vkshare.errors import ClosedError, UnsupportedError
from vkshare.view import messages, video
from vkshare.view.display_pixels import EIGHT_BIT, to_rgba8
from vkshare.view.encoder import Encoder
from vkshare.view.encoder_viewer import Viewer
from vkshare.view.feed import Feed
from vkshare.view.tiles import Tiles
from vkshare.view.viewer_state import MOST_UNACKNOWLEDGED, REST

pytestmark = [pytest.mark.no_driver, unhurried]

HANG = 30.0
WIDTH, HEIGHT = 333, 271  # large enough for video, and no multiples of a tile


def wait_until(is_true: Callable[[], bool]) -> None:
    limit = time.monotonic() + HANG
    while not is_true():
        assert time.monotonic() < limit, "it does not come"
        time.sleep(0.002)


class Page:
    """A viewer as a page is: it decodes what comes, and acknowledges what it shows, unless it is stopped."""

    def __init__(self, encoder: Encoder, *, is_stopped: bool = False, codecs: tuple[str, ...] | None = None) -> None:
        self.is_stopped = is_stopped
        self.canvas: np.ndarray[Any, Any] | None = None
        self.kinds: deque[messages.Kind] = deque(maxlen=1000)  # of the pictures that came
        self.codec = self.end = ""
        self.is_lossless = False
        self.bytes = 0
        self.rectangles: tuple[messages.Rectangle, ...] = ()  # of the newest tiles
        self._decoder: Any = None
        self._attached = threading.Event()
        self.viewer: Viewer = encoder.attach(self._receive, codecs)
        self._attached.set()

    def _receive(self, message: bytes) -> None:
        self._attached.wait(HANG)
        kind = messages.Kind(message[0])
        self.bytes += len(message)
        if kind is messages.Kind.CONFIG:
            self.codec = message[16 : 16 + int.from_bytes(message[12:14], "little")].decode()
            width, height = (int.from_bytes(message[at : at + 4], "little") for at in (4, 8))
            self.canvas = np.zeros((height, width, 4), np.uint8)
        elif kind is messages.Kind.END:
            self.end = message[4:].decode()
        else:
            self.kinds.append(kind)
            frame = int.from_bytes(message[8:16], "little")
            if not self.is_stopped:
                (self._tiles if kind is messages.Kind.TILES else self._video)(message)
                self.viewer.acknowledged(frame)

    def _tiles(self, message: bytes) -> None:
        assert self.canvas is not None
        self.rectangles = Tiles.read(message).rectangles
        Tiles.read(message).apply(self.canvas)
        self.is_lossless = True

    def _video(self, message: bytes) -> None:
        import av

        assert self.canvas is not None
        self.is_lossless = False
        if self._decoder is None:
            assert message[1] & 1, "the video begins with a keyframe"
            self._decoder = av.codec.CodecContext.create("h264", "r")
        for frame in self._decoder.decode(av.packet.Packet(message[32:])):
            height, width = self.canvas.shape[:2]
            self.canvas[..., :3] = frame.to_ndarray(format="rgb24")[:height, :width]

    def shows(self, picture: np.ndarray[Any, Any], format: str = "rgba8unorm") -> bool:
        return self.is_lossless and self.canvas is not None and np.array_equal(self.canvas, to_rgba8(picture, format))


class Shown:
    """A pipe, its feed, and an encoder whose clock the test sets."""

    def __init__(self, device: vks.Device, ending: contextlib.ExitStack, format: str = "rgba8unorm", **more: Any):
        self.now = 0.0
        self.sender, descriptor = vks.pipe(device, WIDTH, HEIGHT, format)
        ending.enter_context(self.sender)
        with descriptor:
            receiver = ending.enter_context(vks.open_receiver(device, descriptor))
        self.feed = ending.enter_context(Feed(receiver))
        self.encoder = ending.enter_context(Encoder(self.feed, clock=lambda: self.now, **more))

    def send(self, picture: np.ndarray[Any, Any]) -> None:
        """Send a frame, and wait until the encoder has it."""
        before = self.encoder.statistics().pictures
        with self.sender.frame(timeout=HANG) as frame:
            frame.surface.write(picture)
        wait_until(lambda: self.encoder.statistics().pictures > before)

    def later(self, seconds: float) -> None:
        """Set the clock, and let the encoder see it."""
        self.now += seconds
        self.encoder._wake()


@pytest.fixture
def ending() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def shown(device: vks.Device, ending: contextlib.ExitStack) -> Shown:
    return Shown(device, ending)


def noise(seed: int, channels: int = 4) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, channels), dtype=np.uint8)


def gradient(step: int) -> np.ndarray[Any, Any]:
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    return np.stack((x * 200 // WIDTH, y * 200 // HEIGHT, (x + y + 8 * step) & 127, 0 * x + 255), -1).astype(np.uint8)


def need_h264() -> None:
    if "h264" not in video.available():
        pytest.skip("this PyAV has no encoder of h264")


@pytest.mark.rule("W3")
@pytest.mark.parametrize("format", EIGHT_BIT)
def test_every_8_bit_format_arrives_bit_for_bit(device: vks.Device, ending: Any, format: str) -> None:
    shown = Shown(device, ending, format)
    page = Page(shown.encoder)
    picture = noise(1, vks.formats.get(format).channels)
    shown.send(picture)
    wait_until(lambda: page.shows(picture, format))
    packed = page.bytes
    picture[70:75, 130:140] ^= 0xFF
    shown.send(picture)
    wait_until(lambda: page.shows(picture, format))
    assert page.bytes - packed < 64 * 64 * 4 * 2 + 200  # the two tiles of the change, or less


@pytest.mark.rule("W3")
def test_a_picture_that_moves_is_video_and_is_exact_within_a_second_of_rest(shown: Shown) -> None:
    need_h264()
    page = Page(shown.encoder)
    shown.send(gradient(0))
    wait_until(lambda: page.shows(gradient(0)))
    for step in range(1, 12):
        shown.later(1 / 60)
        shown.send(gradient(step))
        wait_until(lambda: not page.viewer.unacknowledged)
    assert page.kinds[-1] is messages.Kind.VIDEO
    assert page.canvas is not None
    assert np.abs(page.canvas[..., :3].astype(int) - gradient(11)[..., :3]).mean() < 4
    shown.later(1.0)
    wait_until(lambda: page.shows(gradient(11)))
    shown.later(60.0)
    shown.send(gradient(11))  # nothing has changed
    assert shown.encoder.statistics().unacknowledged == 0
    assert page.kinds[-1] is messages.Kind.TILES


@pytest.mark.rule("W3")
def test_the_last_picture_is_exact_before_the_end_is_told(shown: Shown) -> None:
    page = Page(shown.encoder)
    page.viewer.set_mode("video")
    for step in range(4):
        shown.send(gradient(step))
    shown.sender.close()
    wait_until(lambda: page.end != "")
    assert page.end == "its sender has closed"
    assert page.shows(gradient(3))
    late = Page(shown.encoder)
    wait_until(lambda: late.end != "")
    assert late.shows(gradient(3))


@pytest.mark.rule("W3")
def test_a_viewer_that_comes_later_gets_the_picture_that_is_there(shown: Shown) -> None:
    first = Page(shown.encoder)
    shown.send(noise(1))
    wait_until(lambda: first.shows(noise(1)))
    second = Page(shown.encoder)
    wait_until(lambda: second.shows(noise(1)))
    first.viewer.close()
    second.viewer.close()
    for seed in range(2, 9):  # nothing reads these but the pipe's other end
        with shown.sender.frame(timeout=HANG) as frame:
            frame.surface.write(noise(seed))
    third = Page(shown.encoder)
    wait_until(lambda: third.shows(noise(8)))


@pytest.mark.rule("W4")
def test_a_viewer_that_never_acknowledges_gets_three_frames_and_holds_nothing_up(shown: Shown) -> None:
    stopped = Page(shown.encoder, is_stopped=True)
    shown.send(noise(0))
    pictures = [noise(seed) for seed in range(8)]
    count = rounds(20_000, 300)

    sent = itertools.cycle(pictures)
    newest = pictures[0]

    def send(number: int) -> None:
        nonlocal newest
        for newest in itertools.islice(sent, number):
            shown.later(1 / 60)
            with shown.sender.frame(timeout=HANG) as frame:  # every frame is sent
                frame.surface.write(newest)

    send(100)
    before = resident_kib()
    send(count)
    until = time.monotonic() + HANG
    while len(stopped.kinds) < MOST_UNACKNOWLEDGED and time.monotonic() < until:
        send(1)  # the encoder's thread may have slept through all of them
        time.sleep(0.01)
    assert len(stopped.kinds) == MOST_UNACKNOWLEDGED
    assert len(stopped.viewer.unacknowledged) == MOST_UNACKNOWLEDGED
    assert resident_kib() - before < 20_000 + count // 100
    assert shown.encoder.statistics().pictures < 50  # the feed rests while no viewer takes a picture
    working = Page(shown.encoder)
    wait_until(lambda: working.shows(newest))
    stopped.is_stopped = False
    stopped.viewer.acknowledged(stopped.viewer.unacknowledged[-1])
    wait_until(lambda: stopped.kinds[-1] is messages.Kind.TILES and not stopped.viewer.unacknowledged)


@pytest.mark.rule("W4")
def test_five_viewers_share_the_work_of_one_though_one_is_stopped(shown: Shown) -> None:
    pages = [Page(shown.encoder, is_stopped=at == 0) for at in range(5)]
    for step in range(40):
        shown.later(1.0)  # slow pictures are lossless
        picture = gradient(step)
        shown.send(picture)
        wait_until(lambda picture=picture: all(each.shows(picture) for each in pages[1:]))  # type: ignore[misc]
    statistics = shown.encoder.statistics()
    assert statistics.tiles == 4 * 40 + MOST_UNACKNOWLEDGED
    assert statistics.packed <= 40 + MOST_UNACKNOWLEDGED
    for step in range(40, 60):
        shown.later(REST / 20)
        shown.send(gradient(step))
        wait_until(lambda: all(not each.viewer.unacknowledged for each in pages[1:]))
    statistics = shown.encoder.statistics()
    if statistics.codec:
        assert statistics.videos == 4 * statistics.units > 40
        assert statistics.keyframes == 1


def test_viewers_that_are_in_video_get_a_keyframe_with_a_new_one(shown: Shown) -> None:
    need_h264()
    pages: list[Page] = []
    for step in range(60):
        if step % 30 == 0:
            pages.append(Page(shown.encoder))
            pages[-1].viewer.set_mode("video")
        shown.later(1 / 30)
        shown.send(gradient(step))
        wait_until(lambda: all(not each.viewer.unacknowledged for each in pages))
    assert [each.kinds[-1] for each in pages] == [messages.Kind.VIDEO] * 2
    assert shown.encoder.statistics().keyframes == 2
    assert np.array_equal(pages[0].canvas, pages[1].canvas)  # type: ignore[arg-type]


@pytest.mark.rule("W3")
def test_a_lossless_viewer_beside_one_in_video_gets_the_tiles_that_changed_alone(shown: Shown) -> None:
    need_h264()
    fast, exact = Page(shown.encoder), Page(shown.encoder)
    fast.viewer.set_mode("video")
    exact.viewer.set_mode("lossless")
    picture = noise(1)
    for step in range(2, 6):
        picture = picture.copy()
        picture[:, :256] = noise(step)[:, :256]  # 4 of 6 columns of tiles, which is a large change
        shown.later(1 / 30)
        shown.send(picture)
        wait_until(functools.partial(exact.shows, picture))
        wait_until(lambda: not fast.viewer.unacknowledged)
    assert fast.kinds[-1] is messages.Kind.VIDEO
    assert exact.rectangles == ((0, 0, 256, HEIGHT),)
    fast.viewer.set_mode("lossless")
    wait_until(lambda: fast.shows(picture))


def test_a_bogus_acknowledgement_is_an_error_and_other_viewers_go_on(shown: Shown) -> None:
    bad, good = Page(shown.encoder), Page(shown.encoder)
    with pytest.raises(ValueError, match="frame 77 was acknowledged"):
        bad.viewer.acknowledged(77)
    bad.viewer.close()
    shown.send(noise(1))
    wait_until(lambda: good.shows(noise(1)))
    assert not bad.kinds
    with pytest.raises(ValueError, match="'auto', 'lossless', 'video'"):
        good.viewer.set_mode("best")


def test_a_send_that_raises_ends_its_viewer_alone(shown: Shown, caplog: pytest.LogCaptureFixture) -> None:
    def send(_: bytes) -> None:
        raise OSError("no such connection")

    with caplog.at_level(logging.CRITICAL, "vkshare.view"):
        viewer, good = shown.encoder.attach(send), Page(shown.encoder)
        shown.send(noise(1))
        wait_until(lambda: good.shows(noise(1)))
    assert viewer.is_closed
    assert shown.encoder.statistics().viewers == 1


def test_an_encoder_of_video_that_fails_leaves_pictures_lossless(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    need_h264()

    def encode(*_: Any, **__: Any) -> Any:
        raise UnsupportedError("a video", "the encoder failed", "")

    monkeypatch.setattr(video.VideoEncoder, "encode", encode)
    page = Page(shown.encoder)
    page.viewer.set_mode("video")
    with caplog.at_level(logging.CRITICAL, "vkshare.view"):
        for step in range(4):
            picture = gradient(step)
            shown.send(picture)
            wait_until(lambda picture=picture: page.shows(picture))  # type: ignore[misc]
    assert (page.codec, shown.encoder.codec) == ("", "")
    assert set(page.kinds) == {messages.Kind.TILES}


@pytest.mark.rule("W3")
@pytest.mark.parametrize("mode", ["auto", "video"])
def test_a_viewer_that_cannot_decode_the_video_gets_tiles_while_others_get_video(shown: Shown, mode: str) -> None:
    need_h264()
    without, other = Page(shown.encoder, codecs=("av1",)), Page(shown.encoder)
    for page in (without, other):
        page.viewer.set_mode(mode)
    for step in range(8):
        picture = gradient(step)
        shown.send(picture)
        wait_until(lambda picture=picture: without.shows(picture))  # type: ignore[misc]
        shown.now += 0.01
    wait_until(lambda: messages.Kind.VIDEO in other.kinds)
    assert (without.codec, set(without.kinds)) == ("", {messages.Kind.TILES})
    assert other.codec.startswith("avc1.")


@pytest.mark.parametrize("codecs", [(), ("vp9",)])
def test_the_codec_is_the_first_one_that_there_is(device: vks.Device, ending: Any, codecs: tuple[str, ...]) -> None:
    shown = Shown(device, ending, codecs=codecs)
    wanted = video.choose(WIDTH, HEIGHT, codecs)
    page = Page(shown.encoder)
    wait_until(lambda: page.canvas is not None)
    assert page.codec == (video.codec_string(wanted, WIDTH, HEIGHT) if wanted else "")
    with pytest.raises(ValueError, match="codecs is 'mpeg2'"):
        Encoder(shown.feed, codecs=("mpeg2",))


def test_a_closed_encoder_takes_no_viewers_and_leaves_the_feed_open(shown: Shown) -> None:
    page = Page(shown.encoder)
    shown.encoder.close()
    shown.encoder.close()
    with pytest.raises(ClosedError):
        shown.encoder.attach(lambda _: None)
    page.viewer.close()
    assert "closed" in repr(shown.encoder)
    assert not shown.feed.is_closed
    with Encoder(shown.feed) as again:
        page = Page(again)
        with shown.sender.frame(timeout=HANG) as frame:
            frame.surface.write(noise(1))
        wait_until(lambda: page.shows(noise(1)))
