"""Selection of a vsync source: by trial, by name, by VKSHARE_VSYNC; and the output of `vkshare info`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from support import private_displays
from support.display_servers import wait_for
from support.fd_counts import open_fds
from support.private_displays import XDisplay
from support.shm_windows import stopped
from support.vsync_sources import StubSource, listening

from vkshare.cli import main
from vkshare.errors import SurfaceLostError, UnsupportedError
from vkshare.vsync import source_selection
from vkshare.vsync.source_probe import Trial
from vkshare.vsync.source_selection import KINDS, choose, forced, survey
from vkshare.vsync.sources import X11PresentSource

pytestmark = [pytest.mark.no_driver, pytest.mark.slow, pytest.mark.rule("V22"), pytest.mark.usefixtures("nothing_said")]


@pytest.fixture
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "VKSHARE_VSYNC"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def _server() -> Iterator[XDisplay]:
    with private_displays.xvfb(320, 200, window_manager=False, options=("-fakescreenfps", "60")) as display:
        yield display


@pytest.fixture
def server(_server: XDisplay, nothing_said: None, monkeypatch: pytest.MonkeyPatch) -> XDisplay:
    monkeypatch.setenv("DISPLAY", _server.name)
    return _server


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> dict[str, StubSource]:
    """Stubs of two kinds; a trial finds of each what stands in `trials` by then: at first, that both work."""
    made = {"display-control": StubSource(), "x11-present": StubSource()}
    for kind, source in made.items():
        monkeypatch.setattr(source, "kind", kind)

    def factories(*_: Any) -> dict[str, Callable[[], StubSource]]:
        def missing() -> StubSource:
            raise UnsupportedError("present-timing", "there is none")

        return {"present-timing": missing} | {kind: lambda source=source: source for kind, source in made.items()}

    monkeypatch.setattr(source_selection, "_factories", factories)
    return made


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Whether a trial of a kind works."""
    works = dict.fromkeys(KINDS, True)

    def tried(source: StubSource, seconds: float) -> Trial:
        return Trial(works[source.kind], "as the test says")

    monkeypatch.setattr(source_selection, "try_source", tried)
    return works


def test_the_best_source_that_works_is_chosen(sources: dict[str, StubSource], trials: dict[str, bool]) -> None:
    assert choose() is sources["display-control"]
    assert not sources["display-control"].is_closed
    for source in sources.values():
        source.close()


def test_a_source_whose_trial_fails_is_closed_and_the_next_one_tried(
    sources: dict[str, StubSource], trials: dict[str, bool]
) -> None:
    trials["display-control"] = False
    assert choose() is sources["x11-present"]
    assert sources["display-control"].is_closed
    assert not sources["x11-present"].is_closed
    sources["x11-present"].close()


def test_where_none_works_the_software_has_to_tick(sources: dict[str, StubSource], trials: dict[str, bool]) -> None:
    trials.update(dict.fromkeys(KINDS, False))
    assert choose() is None
    assert all(source.is_closed for source in sources.values())


def test_a_source_that_is_named_is_used_though_its_trial_fails(
    sources: dict[str, StubSource], trials: dict[str, bool], caplog: pytest.LogCaptureFixture
) -> None:
    trials["x11-present"] = False
    assert choose(name="x11-present") is sources["x11-present"]
    assert not sources["x11-present"].is_closed
    assert "as the test says" in caplog.text
    with pytest.raises(UnsupportedError, match="there is none"):
        choose(name="present-timing")
    for source in sources.values():
        source.close()


def test_a_named_source_that_is_lost_is_refused(sources: dict[str, StubSource]) -> None:
    sources["x11-present"].fail(SurfaceLostError("the display went away"))
    with pytest.raises(UnsupportedError, match="went away"):
        choose(name="x11-present")
    assert sources["x11-present"].is_closed
    sources["display-control"].close()


@pytest.mark.parametrize("name", [":59535", "nonsense"])  # the last number, which no server of the machine has
def test_a_source_of_a_server_that_is_not_there_is_unsupported(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("DISPLAY", name)
    before = len(open_fds())
    with pytest.raises(UnsupportedError, match=name):
        choose(name="x11-present")
    assert choose() is None
    monkeypatch.delenv("DISPLAY")
    with pytest.raises(UnsupportedError, match="DISPLAY"):
        choose(name="x11-present")
    assert len(open_fds()) == before


def test_a_source_of_a_window_that_is_not_there_is_unsupported(server: XDisplay) -> None:
    with pytest.raises(UnsupportedError, match="0x3f00000"):
        choose(0x3F00000, name="x11-present")


def test_the_environment_selects_a_source_unless_the_call_names_one(
    sources: dict[str, StubSource], trials: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKSHARE_VSYNC", "x11-present")
    assert choose() is sources["x11-present"]
    assert choose(name="display-control") is sources["display-control"]
    assert choose(name="auto") is sources["display-control"]
    assert choose(name="software") is None
    monkeypatch.setenv("VKSHARE_VSYNC", "software")
    assert choose() is None
    monkeypatch.setenv("VKSHARE_VSYNC", "")
    assert forced() == "auto"
    for source in sources.values():
        source.close()


def test_an_unknown_name_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    names = "'auto', 'present-timing', 'display-control', 'x11-present', 'present-wait', 'software'"
    with pytest.raises(ValueError, match=f"name is 'vblank'; allowed are {names}"):
        choose(name="vblank")
    monkeypatch.setenv("VKSHARE_VSYNC", "drm")
    with pytest.raises(ValueError, match=f"VKSHARE_VSYNC is 'drm'; allowed are {names}"):
        choose()


# ---- real ones -------------------------------------------------------------------------------------------------------


def test_an_x_servers_blanks_are_chosen_where_there_is_one(server: XDisplay) -> None:
    fds = open_fds()

    def chosen() -> bool:
        source = choose()
        if source is None:
            return False
        with source:
            assert isinstance(source, X11PresentSource)
            assert not source.is_running
            return source.interval is not None and abs(source.interval * 60 - 1) < Fraction(3, 100)

    wait_for(chosen, "its trial works", 30)  # what else runs on the machine may disturb some
    assert listening() == []
    assert open_fds() == fds


def test_without_a_window_system_there_is_nothing_to_choose() -> None:
    assert choose() is None
    with pytest.raises(UnsupportedError, match="DISPLAY is not set"):
        choose(name="x11-present")
    with pytest.raises(UnsupportedError, match="no device and VkSwapchainKHR"):
        choose(name="present-wait")


def test_a_survey_tries_each_kind(server: XDisplay) -> None:
    fds = open_fds()
    wait_for(lambda: {a.kind: a.trial.works for a in survey()}["x11-present"], "its trial works", 30)
    assert [attempt.kind for attempt in survey()] == list(KINDS)
    # One that took too long, on a busy machine, ends by itself.
    wait_for(lambda: listening() == [] and open_fds() == fds, "all is closed")


def test_a_survey_does_not_wait_for_a_server_that_is_stopped() -> None:
    with private_displays.xvfb(64, 64, window_manager=False) as display, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISPLAY", display.name)
        with stopped(display):
            found = {attempt.kind: attempt.trial for attempt in survey()}
        assert not found["x11-present"].works
        assert "does not answer" in found["x11-present"].why
        wait_for(lambda: listening() == [], "what hung has ended")


# ---- vkshare info ----------------------------------------------------------------------------------------------------


def info(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["info", *arguments]) == 0
    return capsys.readouterr().out


def test_info_prints_the_trials_and_their_results(server: XDisplay, capsys: pytest.CaptureFixture[str]) -> None:
    def tells() -> dict[str, Any]:
        reported: dict[str, Any] = json.loads(info(capsys, "--json"))["vsync"]
        return reported if reported["chosen"] == "x11-present" else {}

    reported = wait_for(tells, "its trial works", 30)
    assert [each["kind"] for each in reported["sources"]] == list(KINDS)
    found = {each["kind"]: each for each in reported["sources"]}
    assert abs(found["x11-present"]["interval"] * 60 - 1) < 0.05
    assert found["x11-present"]["sigma"] > 0
    assert not found["present-timing"]["works"]
    assert "VK_EXT_present_timing" in found["present-timing"]["why"]


def test_info_says_that_there_is_no_window_system(capsys: pytest.CaptureFixture[str]) -> None:
    reported = info(capsys)
    assert "vsync: software" in reported
    assert "DISPLAY is not set" in reported


def test_info_prints_the_kind_that_the_environment_forces(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VKSHARE_VSYNC", "software")
    assert "vsync: software (VKSHARE_VSYNC says so)" in info(capsys)
    monkeypatch.setenv("VKSHARE_VSYNC", "drm")
    assert "VKSHARE_VSYNC is 'drm'; allowed are" in info(capsys)


def test_info_does_not_hang_where_the_x_server_is_stopped() -> None:
    with private_displays.xvfb(64, 64, window_manager=False) as display, stopped(display):
        reported = private_displays.run_child("from vkshare.cli import main\nmain(['info'])", display.environment)
        assert "does not answer" in reported
