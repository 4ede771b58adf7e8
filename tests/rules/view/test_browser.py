"""A view server in headless Chromium: pixels, events, reconnects, several tabs (rules W5 and W7)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.chromium_pages import equals, pixels, shown, state, until
from support.view_servers import certificate, need_aiohttp

import vkshare as vks
from vkshare import view

pytest_plugins = ["support.chromium_pages", "support.view_servers"]
pytestmark = pytest.mark.no_driver

EIGHT_BIT = ("rgba8unorm", "rgba8unorm-srgb", "bgra8unorm", "r8unorm", "rg8unorm")


def noise(width: int, height: int, channels: int = 4, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def colours(picture: np.ndarray[Any, Any], form: str) -> np.ndarray[Any, Any]:
    """The colours that a page shows of a picture: red, green and blue."""
    if form == "bgra8unorm":
        return picture[..., [2, 1, 0]]
    channels = picture.shape[2]
    if channels == 1:
        return np.repeat(picture, 3, axis=2)
    if channels == 2:
        return np.concatenate([picture, np.zeros_like(picture[..., :1])], axis=2)
    return picture[..., :3]


def wait_until(is_true: Callable[[], bool], page: Any = None, seconds: float = 30.0) -> None:
    """Wait for what a thread of the server does."""
    limit = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < limit, "it does not come"
        page.wait_for_timeout(10) if page else time.sleep(0.01)


@pytest.mark.rule("W3", "W7")
def test_the_page_shows_each_pixel_of_each_8_bit_format_as_it_is(show: Any, new_page: Any) -> None:
    page = new_page()
    for form in EIGHT_BIT:
        source = show(67, 45, form, name=f"in {form}")
        page.goto(source.server.url)
        for seed in (1, 2):
            picture = noise(67, 45, vks.formats.get(form).channels, seed)
            source.send(picture)
            found = equals(page, colours(picture, form))
            assert (found[..., 3] == 255).all()
        assert page.text_content("#mode") == "lossless"
        assert page.text_content("#name") == f"in {form}"
        assert page.text_content("#size") == "67 \u00d7 45"


@pytest.mark.rule("W6", "W7")
def test_the_page_comes_over_tls(show: Any, new_page: Any, tmp_path: Path) -> None:
    source = show(32, 32, certificate=certificate(tmp_path))
    source.send(noise(32, 32))
    page = new_page(source.server.url)
    equals(page, noise(32, 32))
    assert page.url.startswith("https://")


def gradient(width: int, height: int, step: int) -> np.ndarray[Any, Any]:
    """A smooth picture, which video keeps near."""
    y, x = np.mgrid[0:height, 0:width]
    planes = (x * 255 // width, y * 255 // height, (x + y + 4 * step) * 255 // (width + height + 400), 0 * x + 255)
    return np.stack(planes, -1).astype(np.uint8)


def likeness(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> float:
    """PSNR in dB."""
    error = float(np.mean((found[..., :3].astype(float) - wanted[..., :3].astype(float)) ** 2))
    return 99.0 if error == 0 else 10 * math.log10(255**2 / error)


def shows_nearly(page: Any, picture: np.ndarray[Any, Any]) -> None:
    """Wait until the page shows the picture but for the losses of video."""
    wait_until(lambda: likeness(pixels(page), picture) > 34, page)


@pytest.mark.rule("W3", "W7")
@pytest.mark.parametrize("size", [(320, 200), (163, 91)])
def test_video_is_near_the_picture_the_badge_names_it_and_lossless_is_exact_again(
    show: Any, new_page: Any, size: tuple[int, int]
) -> None:
    source = show(*size)
    source.send(gradient(*size, 0))
    page = new_page(source.server.url)
    state(page, "shown")
    page.select_option("#quality", "video")
    for step in range(1, 200):
        picture = gradient(*size, step)
        source.send(picture)
        page.wait_for_timeout(15)
        if step > 20 and page.evaluate("document.documentElement.dataset.mode") == "video":
            break
    until(page, 'document.documentElement.dataset.mode === "video"')
    assert page.text_content("#mode").startswith("video ")
    assert page.get_attribute("#mode", "data-lossless") == "false"
    shows_nearly(page, picture)
    page.select_option("#quality", "lossless")
    equals(page, picture)
    assert page.text_content("#mode") == "lossless"


_SEES_VIDEO = 'document.getElementById("picture").style.opacity === "0"'
_CHANGES = {
    "as it is": "",
    "no tracks": "delete window.MediaStreamTrackGenerator",
    "unseen": "HTMLVideoElement.prototype.requestVideoFrameCallback = () => 0",
    "refused": "WritableStreamDefaultWriter.prototype.write = async () => { throw new Error('the track has ended'); }",
    "stuck": "WritableStreamDefaultWriter.prototype.write = () => new Promise(() => {});"
    "Object.defineProperty(WritableStreamDefaultWriter.prototype, 'desiredSize', { value: -4 })",
}
_BRIEF = ("as it is", "no tracks")  # the others in make test-full


@pytest.mark.rule("W3", "W7")
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=name, marks=() if name in _BRIEF else pytest.mark.full)
        for name, script in _CHANGES.items()
    ],
)
def test_video_is_seen_in_a_video_element_or_on_the_canvas_and_exact_tiles_follow_it(
    show: Any, new_page: Any, script: str
) -> None:
    size = 320, 200
    source = show(*size)
    page = new_page()
    page.add_init_script(script)
    source.send(gradient(*size, 0))
    page.goto(source.server.url)
    state(page, "shown")
    for turn in (1, 2):
        page.select_option("#quality", "video")
        for step in range(90):
            picture = gradient(*size, 100 * turn + step)
            source.send(picture)
            page.wait_for_timeout(15)
            if not script and page.evaluate(_SEES_VIDEO):
                break
        shows_nearly(page, picture)
        page.select_option("#quality", "lossless")
        equals(page, picture)
        assert not page.evaluate(_SEES_VIDEO)
    if not script:
        page.select_option("#quality", "video")
        for step in range(200):
            source.send(gradient(*size, step))
            page.wait_for_timeout(15)
            if page.evaluate(_SEES_VIDEO):
                return
        pytest.fail("the video element is never seen")


@pytest.mark.rule("W3", "W7")
@pytest.mark.parametrize(
    "script",
    ["delete window.VideoDecoder", "VideoDecoder.isConfigSupported = async (config) => ({ supported: false, config })"],
    ids=["no decoder", "another codec"],
)
def test_a_browser_that_decodes_no_video_goes_on_with_exact_pictures(show: Any, new_page: Any, script: str) -> None:
    source = show(160, 128)
    page = new_page()
    page.add_init_script(script)
    source.send(noise(160, 128))
    page.goto(source.server.url)
    equals(page, noise(160, 128))
    if page.is_enabled("#quality"):
        page.select_option("#quality", "video")
    for step in range(20):
        source.send(noise(160, 128, seed=step))
        page.wait_for_timeout(20)
    source.send(noise(160, 128, seed=99))
    equals(page, noise(160, 128, seed=99))
    assert page.text_content("#mode") == "lossless"


@pytest.mark.rule("W6", "W7")
def test_the_token_leaves_the_address_bar_and_a_reload_keeps_the_picture(show: Any, new_page: Any) -> None:
    source = show(32, 32)
    picture = noise(32, 32)
    source.send(picture)
    page = new_page(source.server.url)
    equals(page, picture)
    assert source.server.token not in page.url
    page.reload()
    equals(page, picture)


@pytest.mark.rule("W6")
def test_a_page_without_the_token_says_that_it_is_refused(show: Any, new_page: Any) -> None:
    source = show(32, 32)
    source.send(noise(32, 32))
    page = new_page(source.server.url.replace(source.server.token, "x" * 32))
    state(page, "refused")
    assert "refuses" in page.text_content("#notice-text")
    assert source.server.statistics().accepted == 0
    page.goto(source.server.url)
    state(page, "shown")


@pytest.mark.rule("W6")
def test_a_page_whose_address_has_lost_its_token_says_so(show: Any, new_page: Any) -> None:
    page = new_page(show(32, 32).server.url.partition("#")[0])
    state(page, "refused")
    assert "has no token" in page.text_content("#notice-text")


@pytest.mark.rule("W6")
def test_the_page_of_another_site_gets_nothing(show: Any, new_page: Any) -> None:
    source, other = show(16, 16), show(16, 16)
    page = new_page(other.server.url)
    tried = page.evaluate(
        """async ([host, token]) => {
            const socket = new WebSocket(`ws://${host}/view`, ["vkshare.view.1", `token.${token}`]);
            const opened = await new Promise((done) => {
                socket.onopen = () => done(true);
                socket.onerror = () => done(false);
            });
            const fetched = await fetch(`http://${host}/main.js`, {mode: "no-cors"}).then(() => true, () => false);
            return [opened, fetched];
        }""",
        [f"localhost:{source.server.address[1]}", source.server.token],
    )
    assert tried == [False, False]
    assert source.server.statistics().accepted == 0


@pytest.mark.rule("W5", "W7")
def test_keys_and_pointer_arrive_in_order_with_the_fields_of_rendercanvas(show: Any, new_page: Any) -> None:
    events: list[Any] = []
    source = show(100, 50, on_event=events.append)
    source.send(noise(100, 50))
    page = new_page(source.server.url, width=1100, height=300)  # the bar has one line
    state(page, "shown")
    box = page.locator("#picture").bounding_box()
    scale = box["width"] / 100
    assert scale == int(scale)
    at = lambda x, y: (box["x"] + x * scale, box["y"] + y * scale)  # noqa: E731
    page.mouse.move(*at(10, 20))
    page.mouse.down()
    page.mouse.move(*at(-5, 60))  # the pointer is captured
    page.mouse.down(button="right")
    page.mouse.up(button="right")
    page.mouse.up()
    page.mouse.move(*at(30, 30))
    page.mouse.wheel(20, 120)
    page.keyboard.press("Escape")
    page.keyboard.press("Shift+Q")
    page.keyboard.press("ArrowLeft")
    wait_until(lambda: [(each.event_type, each.key) for each in events[-1:]] == [("key_up", "ArrowLeft")], page)
    others = ("resize", "pointer_enter", "pointer_leave")
    kinds = [event.event_type for event in events if event.event_type not in others]
    found = [kind for at, kind in enumerate(kinds) if kind != "pointer_move" or kinds[at - 1] != kind]
    assert found == [
        *("pointer_move", "pointer_down", "pointer_move", "pointer_down", "pointer_up", "pointer_up"),
        *("pointer_move", "wheel", "key_down", "key_up", "key_down", "key_down", "char", "key_up", "key_up"),
        *("key_down", "key_up"),
    ]
    down, right = [event for event in events if event.event_type == "pointer_down"]
    assert (down.x, down.y, down.button, down.buttons) == (10, 20, 1, (1,))
    assert (right.x, right.y, right.button, right.buttons) == (-5, 60, 2, (1, 2))
    wheel = next(event for event in events if event.event_type == "wheel")
    assert (wheel.x, wheel.y) == pytest.approx((30, 30), abs=0.5)
    assert (wheel.dx, wheel.dy) == (20, 120)
    keys = [(event.event_type, event.key) for event in events if event.event_type in ("key_down", "key_up")]
    assert keys[:2] == [("key_down", "Escape"), ("key_up", "Escape")]
    assert keys[2:6] == [("key_down", "Shift"), ("key_down", "Q"), ("key_up", "Q"), ("key_up", "Shift")]
    char = next(event for event in events if event.event_type == "char")
    assert (char.char_str, char.modifiers) == ("Q", ("Shift",))
    resize = events[0]
    assert (resize.event_type, resize.width, resize.pixel_ratio) == ("resize", 1100, 1)
    assert {event.viewer for event in events} == {1}
    assert [event.time_stamp for event in events] == sorted(event.time_stamp for event in events)


@pytest.mark.rule("W5")
def test_a_double_click_is_where_its_press_was(show: Any, new_page: Any) -> None:
    events: list[Any] = []
    source = show(60, 60, on_event=events.append)
    source.send(noise(60, 60))
    page = new_page(source.server.url)
    state(page, "shown")
    box = page.locator("#picture").bounding_box()
    page.mouse.dblclick(box["x"] + 100.8, box["y"] + 99.6)
    wait_until(lambda: any(each.event_type == "double_click" for each in events), page)
    down = [each for each in events if each.event_type == "pointer_down"][-1]
    (double,) = [each for each in events if each.event_type == "double_click"]
    assert (double.x, double.y) == (down.x, down.y)


@pytest.mark.rule("W5")
def test_a_page_that_is_closed_releases_its_keys_and_sends_close(show: Any, new_page: Any) -> None:
    source = show(32, 32)
    source.send(noise(32, 32))
    page = new_page(source.server.url)
    state(page, "shown")
    page.keyboard.down("w")
    wait_until(lambda: source.server.statistics().events >= 3, page)
    page.close()
    wait_until(lambda: source.server.statistics().viewers == 0)
    events = [event for event in source.server.events() if event.event_type not in ("resize", "pointer_enter")]
    assert [event.event_type for event in events] == ["key_down", "char", "key_up", "close"]
    assert [event.key for event in events] == ["w", "", "w", ""]


@pytest.mark.rule("W7")
def test_the_page_comes_back_by_itself_to_a_server_that_was_started_again(show: Any, new_page: Any) -> None:
    source = show(40, 30, token="t" * 32)
    first, second = noise(40, 30, seed=1), noise(40, 30, seed=2)
    source.send(first)
    page = new_page(source.server.url)
    equals(page, first)
    port = source.server.address[1]
    source.server.close()
    state(page, "lost")
    assert "Trying again" in page.text_content("#notice-text")
    source.serve_again(bind=f"127.0.0.1:{port}", token="t" * 32)
    source.send(second)
    equals(page, second)
    state(page, "shown")


@pytest.mark.rule("W7")
def test_five_tabs_show_the_same_while_one_of_them_is_stopped(show: Any, new_page: Any) -> None:
    source = show(48, 36)
    source.send(noise(48, 36))
    pages = [new_page(source.server.url)]
    for _ in range(4):
        pages.append(pages[0].context.new_page())
        pages[-1].goto(source.server.url)
    for page in pages:
        state(page, "shown")
    # The tab's main thread is busy until it is let go: it takes no message.
    pages[0].evaluate(
        """() => {
            setTimeout(() => { const until = performance.now() + 1500; while (performance.now() < until); }, 0);
        }"""
    )
    for seed in range(2, 40):
        picture = noise(48, 36, seed=seed)
        source.send(picture)
    for page in pages[1:]:
        equals(page, picture)
    equals(pages[0], picture)
    assert source.server.statistics().viewers == 5


@pytest.mark.rule("W7")
def test_a_picture_that_ends_is_said_to_have_ended(show: Any, new_page: Any) -> None:
    source = show(32, 32)
    source.send(noise(32, 32))
    page = new_page(source.server.url)
    state(page, "shown")
    source.sender.close()
    state(page, "ended")
    assert source.server.wait(30)
    assert source.server.end


@pytest.mark.rule("W7")
def test_a_picture_that_gets_another_size_is_shown_in_it(device: Any, new_page: Any, stack: Any) -> None:
    need_aiohttp()
    swapchain = stack.enter_context(device.create_swapchain(vks.Headless(60, 40)))
    server = stack.enter_context(view.serve(swapchain))
    page = new_page(server.url)
    for size in ((60, 40), (80, 30)):
        swapchain.resize(*size)
        for shade in range(10):
            with swapchain.frame() as frame:
                device.submit(device.record().clear(frame.view, (shade / 10, 1, 0, 1)))
        wanted = f'document.getElementById("picture").width === {size[0]}'
        until(page, f'{wanted} && document.documentElement.dataset.state === "shown"')
        wait_until(lambda: tuple(pixels(page)[5, 5, 1:3]) == (255, 0), page)
    assert server.end is None


@pytest.mark.full
@pytest.mark.rule("W7")
def test_a_4k_picture_arrives_whole(show: Any, new_page: Any) -> None:
    source = show(3840, 2160)
    picture = noise(3840, 2160)
    picture[200:1800] = 7  # most pictures have plain areas
    source.send(picture)
    page = new_page(source.server.url)
    equals(page, picture)


def test_the_picture_is_fitted_by_whole_numbers_or_shown_one_to_one(show: Any, new_page: Any) -> None:
    source = show(100, 50)
    source.send(noise(100, 50))
    page = new_page(source.server.url, width=730, height=600)
    state(page, "shown")
    box = page.locator("#picture").bounding_box()
    assert (box["width"], box["height"]) == (700, 350)
    page.click("#zoom")
    box = page.locator("#picture").bounding_box()
    assert (box["width"], box["height"]) == (100, 50)
    page.click("#zoom")
    page.set_viewport_size({"width": 80, "height": 600})
    until(page, 'document.getElementById("picture").getBoundingClientRect().width === 80')


def test_the_page_has_names_for_all_that_it_has(show: Any, new_page: Any) -> None:
    source = show(32, 32, name="a picture")
    source.send(noise(32, 32))
    page = new_page(source.server.url)
    state(page, "shown")
    assert page.get_by_role("application", name="The shared picture a picture, 32 by 32 pixels").count() == 1
    assert page.get_by_role("button", name="1:1").count() == 1
    assert page.get_by_role("combobox", name="Quality").count() == 1
    assert page.title() == "a picture - vkshare"
    page.keyboard.press("F6")
    assert page.evaluate("document.activeElement.id") == "zoom"
    assert pixels(page).shape == (32, 32, 4)
    shown(page)
