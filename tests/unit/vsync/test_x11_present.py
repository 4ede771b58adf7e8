"""X11 Present as a vsync source: what is asked of the server, which answers are ticks, and Xvfb's at several rates."""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from support import private_displays
from support.display_servers import wait_for
from support.fd_counts import open_fds
from support.private_displays import XDisplay
from support.shm_windows import Client, stopped
from support.vsync_sources import Listener, listening

import vkshare as vks
from vkshare.errors import ClosedError, SurfaceLostError, UnsupportedError
from vkshare.vsync import Display, Tick, VsyncDispatcher
from vkshare.vsync.source_probe import try_source
from vkshare.vsync.sources import X11PresentSource
from vkshare.vsync.sources.base import Blank
from vkshare.vsync.sources.x11_present import MscRequests
from vkshare.window.x11_connection import Event, X11Connection, XError

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.no_driver, pytest.mark.slow, pytest.mark.rule("V22")]

OPCODE, WINDOW = 149, 0x200001
RATES = (30, 60, 144, 240)

# ---- what is asked, and what is an answer ----------------------------------------------------------------------------


class Asked:
    """The requests that an MscRequests made."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, ...]] = []
        self.asking = MscRequests(self._take, OPCODE, WINDOW)

    def _take(self, request: bytes) -> None:
        assert len(request) == 40
        minor, *fields = struct.unpack("=xBxxIIIQQQ", request)
        self.requests.append((minor, *fields))

    @property
    def serial(self) -> int:
        """The serial of the last request."""
        return self.requests[-1][2]


def completion(
    serial: int, ust: int, msc: int, *, window: int = WINDOW, opcode: int = OPCODE, number: int = 1, kind: int = 1
) -> Event:
    """A CompleteNotify event, as it comes over the wire."""
    packet = struct.pack("=BBHIHBBIIIQQ", 35, opcode, 0, 2, number, kind, 0, 0x99, window, serial, ust, msc)
    return Event(35, False, packet)


def test_the_next_blank_is_asked_for_without_naming_its_count() -> None:
    asked = Asked()
    asked.asking.request()
    minor, window, serial, _, target, divisor, remainder = asked.requests[0]
    assert (minor, window, target, divisor, remainder) == (2, WINDOW, 0, 1, 0)
    assert asked.asking.take(completion(serial, 5_000_000, 300)) == Blank(5_000_000_000, 300)


def test_one_request_is_pending_at_a_time() -> None:
    asked = Asked()
    for _ in range(3):
        asked.asking.request()
    assert len(asked.requests) == 1
    asked.asking.take(completion(asked.serial, 1000, 1))
    asked.asking.request()
    assert len(asked.requests) == 2
    assert asked.requests[0][2] != asked.requests[1][2]


@pytest.mark.rule("V2")
@pytest.mark.parametrize(
    "forged",
    [
        lambda serial: Event(35, True, completion(serial, 2000, 2).packet),
        lambda serial: completion(serial, 2000, 2, window=WINDOW + 1),
        lambda serial: completion(serial, 2000, 2, opcode=OPCODE + 1),
        lambda serial: completion(serial, 2000, 2, number=2),
        lambda serial: completion(serial, 2000, 2, kind=0),
        lambda serial: completion(serial - 1, 2000, 2),
        lambda serial: completion(serial + 1, 2000, 2),
        lambda serial: Event(12, False, completion(serial, 2000, 2).packet[:32]),
    ],
    ids=["sent", "window", "extension", "event", "pixmap", "earlier", "later", "core"],
)
def test_an_event_that_answers_no_request_is_no_tick(forged: Callable[[int], Event]) -> None:
    asked = Asked()
    asked.asking.request()
    asked.asking.take(completion(asked.serial, 1000, 1))
    asked.asking.request()
    assert asked.asking.take(forged(asked.serial)) is None
    assert asked.asking.is_pending
    assert asked.asking.take(completion(asked.serial, 2000, 2)) == Blank(2_000_000, 2)


@pytest.mark.rule("V2")
@pytest.mark.parametrize(
    ("ust", "msc"), [(0, 8), (1000, 8), (999, 8), (1500, 7)], ids=["unknown", "repeated", "earlier", "same blank"]
)
def test_an_answer_without_a_time_of_its_own_is_no_tick(ust: int, msc: int) -> None:
    asked = Asked()
    asked.asking.request()
    assert asked.asking.take(completion(asked.serial, 1000, 7)) is not None
    asked.asking.request()
    assert asked.asking.take(completion(asked.serial, ust, msc)) is None
    assert not asked.asking.is_pending
    asked.asking.request()
    assert asked.asking.take(completion(asked.serial, 2000, 9)) == Blank(2_000_000, 9)


def test_a_count_that_begins_anew_is_no_end() -> None:
    asked = Asked()
    for ust, msc in ((1000, 900), (2000, 1), (3000, 2)):
        asked.asking.request()
        assert asked.asking.take(completion(asked.serial, ust, msc)) == Blank(ust * 1000, msc)


def test_the_destruction_of_the_window_is_reported() -> None:
    asking = Asked().asking
    assert asking.take(Event(17, False, struct.pack("=BxHII20x", 17, 0, WINDOW, WINDOW + 1))) is None
    with pytest.raises(SurfaceLostError, match="destroyed"):
        asking.take(Event(17, False, struct.pack("=BxHII20x", 17, 0, WINDOW, WINDOW)))
    with pytest.raises(SurfaceLostError, match="no window"):
        asking.take(XError(struct.pack("=BBHIHB21x", 0, 3, 0, WINDOW, 2, OPCODE)))
    with pytest.raises(XError, match="BadAlloc"):
        asking.take(XError(struct.pack("=BBHIHB21x", 0, 11, 0, WINDOW, 2, OPCODE)))


# ---- Xvfb ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server_at() -> Iterator[Callable[[int], XDisplay]]:
    """Servers that stay, by rate."""
    with contextlib.ExitStack() as stack:
        servers: dict[int, XDisplay] = {}

        def at(rate: int) -> XDisplay:
            if rate not in servers:
                options = ("-fakescreenfps", str(rate))
                servers[rate] = stack.enter_context(
                    private_displays.xvfb(640, 480, window_manager=False, options=options)
                )
            return servers[rate]

        yield at


@pytest.fixture
def mortal() -> Iterator[XDisplay]:
    """A server of the test's own, to be killed or stopped."""
    with private_displays.xvfb(320, 200, window_manager=False, options=("-fakescreenfps", "144")) as display:
        yield display


@pytest.fixture
def window_of() -> Iterator[Callable[..., int]]:
    """Makes windows of another X client, until the end of the test."""
    clients: list[Any] = []

    def make(display: XDisplay, *, mapped: bool = True) -> int:
        clients.append(Client(display))
        return clients[-1].window(mapped=mapped)

    yield make
    for client in clients:
        with contextlib.suppress(Exception):  # its server may be dead
            client.connection.disconnect()


@pytest.mark.rule("V2")
@pytest.mark.parametrize("rate", RATES)
def test_ticks_come_at_the_servers_rate_none_of_the_future(rate: int, server_at: Callable[[int], XDisplay]) -> None:
    with X11PresentSource(display_name=server_at(rate).name) as source:
        ahead = []
        listener = Listener(lambda time_ns: ahead.append(time_ns > time.monotonic_ns()))
        source.start(listener.heard)
        times = list(listener.wait(20))
        source.stop()
        assert times == sorted(set(times))
        assert not any(ahead)
        # Some on a busy machine come late; not one can come early.
        assert (times[-1] - times[0]) / 1e9 > 0.9 * (len(times) - 1) / rate


@pytest.mark.parametrize("rate", RATES)
def test_a_trial_finds_the_rate_of_a_server_that_does_not_say(rate: int, server_at: Callable[[int], XDisplay]) -> None:
    with X11PresentSource(display_name=server_at(rate).name) as source:
        assert source.interval is None

        def finds() -> bool:
            trial = try_source(source)
            assert trial.interval is not None or not trial.works
            return trial.works and abs(float(trial.interval or 0) * rate - 1) < 0.03

        wait_for(finds, f"a trial finds {rate} Hz", 30)  # what else runs on the machine may disturb some
        assert source.interval is not None
        assert abs(float(source.interval) * rate - 1) < 0.03
        assert listening() == []


@pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "unmapped"])
def test_a_window_ticks_whether_it_is_shown_or_not(
    mapped: bool, server_at: Callable[[int], XDisplay], window_of: Callable[..., int]
) -> None:
    display = server_at(60)
    window_id = window_of(display, mapped=mapped)
    with X11PresentSource(window_id, display_name=display.name) as source:
        assert f"of window 0x{window_id:x} on '{display.name}'" in repr(source)
        listener = Listener()
        source.start(listener.heard)
        listener.wait(5)


def test_a_window_of_vkshares_is_taken_as_it_is(x11: XDisplay) -> None:
    with vks.Window(64, 64, "ticking") as window, X11PresentSource(window) as source:
        assert source.window_id == window.native_window
        listener = Listener()
        source.start(listener.heard)
        listener.wait(5)


def test_a_hundred_starts_leave_no_thread_and_no_fd(server_at: Callable[[int], XDisplay]) -> None:
    fds, threads = open_fds(), threading.active_count()
    with X11PresentSource(display_name=server_at(240).name) as source:
        listener = Listener()
        for _ in range(100):
            source.start(listener.heard)
            source.stop()
        assert threading.active_count() == threads
        source.start(listener.heard)
        listener.wait(3)
    assert threading.active_count() == threads
    assert open_fds() == fds


@pytest.mark.rule("V2")
def test_a_tick_from_before_the_start_is_dropped(server_at: Callable[[int], XDisplay]) -> None:
    with X11PresentSource(display_name=server_at(60).name) as source:
        for _ in range(3):
            first = Listener()
            source.start(first.heard)
            first.wait(2)
            source.stop()
            time.sleep(0.1)  # the blank that was asked for goes by meanwhile
            begun = time.monotonic_ns()
            again = Listener()
            source.start(again.heard)
            assert again.wait(1)[0] > begun - 1_000_000
            source.stop()


def test_stop_within_a_tick_of_the_servers(server_at: Callable[[int], XDisplay]) -> None:
    with X11PresentSource(display_name=server_at(60).name) as source:
        listener = Listener(lambda _: source.stop())
        source.start(listener.heard)
        listener.wait(1)
        wait_for(lambda: listening() == [], "the thread has ended")
        assert len(listener.times) == 1


def test_a_killed_server_is_reported_once_and_the_process_survives(mortal: XDisplay) -> None:
    with X11PresentSource(display_name=mortal.name) as source:
        listener = Listener()
        source.start(listener.heard, listener.lost)
        listener.wait(2)
        mortal.kill()
        assert isinstance(listener.wait_lost(), SurfaceLostError)
        reported = len(listener.times)
        wait_for(lambda: listening() == [], "the thread has ended")
        assert (len(listener.times), len(listener.losses)) == (reported, 1)
        assert source.is_lost
        with pytest.raises(SurfaceLostError):
            source.start(listener.heard, listener.lost)
        assert not try_source(source).works
        source.stop()


def test_a_server_that_dies_while_the_source_is_stopped_is_noticed_at_the_start(mortal: XDisplay) -> None:
    with X11PresentSource(display_name=mortal.name) as source:
        mortal.kill()
        listener = Listener()
        source.start(listener.heard, listener.lost)
        assert isinstance(listener.wait_lost(), SurfaceLostError)
        assert listener.times == []


@pytest.mark.rule("V14")
def test_a_server_that_is_stopped_for_a_while_is_no_loss_and_holds_up_no_stop(mortal: XDisplay) -> None:
    with X11PresentSource(display_name=mortal.name) as source:
        listener = Listener()
        source.start(listener.heard, listener.lost)
        listener.wait(2)
        with stopped(mortal):
            time.sleep(0.3)
            for _ in range(20):
                source.stop()
                source.start(listener.heard, listener.lost)
        listener.wait(len(listener.times) + 5)
        assert listener.losses == []


@pytest.mark.rule("V14")
def test_a_display_listens_to_a_server_and_goes_on_by_its_timer_when_that_dies() -> None:
    with (
        private_displays.xvfb(320, 200, window_manager=False, options=("-fakescreenfps", "30")) as server,
        X11PresentSource(display_name=server.name) as source,
        Display(source=source, interval=Fraction(1, 30)) as display,
        VsyncDispatcher(display) as window,
        window.observe() as observer,
    ):
        heard: list[Tick] = []

        def ticks_by(kind: str) -> bool:
            heard.append(observer.wait(10))
            return heard[-1].kind == kind

        wait_for(lambda: ticks_by("x11-present"), "the server's blanks are delivered", 30)
        server.kill()
        wait_for(lambda: ticks_by("software"), "the timer ticks", 30)
        wait_for(lambda: display.source_error is not None, "the loss is reported")
        assert isinstance(display.source_error, SurfaceLostError)
        assert ticks_by("software")
        times = [tick.vsync_time for tick in heard]
        assert times == sorted(set(times))


def test_a_destroyed_window_is_a_lost_source(mortal: XDisplay, window_of: Callable[..., int]) -> None:
    window_id = window_of(mortal)
    with X11PresentSource(window_id, display_name=mortal.name) as source:
        listener = Listener()
        source.start(listener.heard, listener.lost)
        listener.wait(1)
        mortal.destroy(window_id)
        assert "destroyed" in str(listener.wait_lost())


def test_windows_and_servers_without_present_events_are_refused(
    mortal: XDisplay, monkeypatch: pytest.MonkeyPatch, server_at: Callable[[int], XDisplay]
) -> None:
    fds = open_fds()
    with pytest.raises(SurfaceLostError, match="no window 0x7fffff"):
        X11PresentSource(0x7FFFFF, display_name=mortal.name)
    with pytest.raises(TypeError, match="window must be"):
        X11PresentSource("root")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="window is 0"):
        X11PresentSource(0, display_name=mortal.name)
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(UnsupportedError, match="DISPLAY is not set"):
        X11PresentSource()
    mortal.kill()
    with pytest.raises(SurfaceLostError, match="cannot be reached"):
        X11PresentSource(display_name=mortal.name)
    assert open_fds() == fds


def test_a_server_without_present_is_refused(
    server_at: Callable[[int], XDisplay], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = server_at(60).name
    monkeypatch.setattr(X11Connection, "extension", lambda connection, name: None)
    with pytest.raises(UnsupportedError, match="no Present extension"):
        X11PresentSource(display_name=name)


@pytest.mark.rule("V2")
def test_a_server_of_another_machine_is_refused_whose_clock_is_not_ours(
    server_at: Callable[[int], XDisplay], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, fds = server_at(60).name, open_fds()
    monkeypatch.setattr(X11Connection, "_tune", lambda connection: (False, 64 * 1024))
    with pytest.raises(UnsupportedError, match="is not local"):
        X11PresentSource(display_name=name)
    assert open_fds() == fds


def test_it_is_closed_once(server_at: Callable[[int], XDisplay]) -> None:
    source = X11PresentSource(display_name=server_at(60).name)
    source.start(lambda _: None)
    source.close()
    source.close()
    with pytest.raises(ClosedError):
        source.start(lambda _: None)
