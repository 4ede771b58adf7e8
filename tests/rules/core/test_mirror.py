"""Mirrors: a surface on an adapter that cannot open its memory (rules G1, G2 and G3)."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import vkshare as vks
from vkshare.core.mirror import BridgedMirror, Mirror
from vkshare.errors import AbandonedError, AcquireTimeout, DeviceMismatchError, UnsupportedError, VkshareError

pytest_plugins = ["support.peer_processes"]

WIDTH, HEIGHT = 32, 16
DAMAGE, ENTRY = 7936, 24  # where the page has the damage of the last 8 turns, and bytes of one: native/shm/page.h
RED, GREEN, BLUE = (1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1)


@dataclass
class Ends:
    """A surface, and its mirror on a device that cannot open it."""

    home: vks.Surface
    mirror: Any
    device: vks.Device  # of the mirror

    def both(self) -> Iterator[tuple[Any, Any]]:
        """Each as the writer, with the other as the reader."""
        yield self.home, self.mirror
        yield self.mirror, self.home


@pytest.fixture(params=["of the driver", "of the CPU backend"])
def ends(request: pytest.FixtureRequest, device: vks.Device) -> Iterator[Ends]:
    """A surface of one of two adapters, and its mirror on the other one."""
    if device.backend == "cpu":
        pytest.skip("the CPU backend's surfaces are mirrored by the runs on Vulkan drivers")
    with vks.open(backend="cpu") as other:
        made, mirrored = (device, other) if request.param == "of the driver" else (other, device)
        with made.create_surface(WIDTH, HEIGHT) as home, mirrored.mirror(home) as mirror:
            if not isinstance(mirror, Mirror):
                pytest.skip("this driver opens the memory of the CPU backend")
            yield Ends(home, mirror, mirrored)


ALL = (0, 0, WIDTH, HEIGHT)


def fill(surface: Any, colour: tuple[float, ...], rect: tuple[int, ...] = ALL, **options: Any) -> None:
    with surface.access(timeout=10, **options) as view:
        surface.device.submit(surface.device.record().fill_rect(view, rect, colour))


def fill_owned(surface: Any, colour: tuple[float, ...]) -> None:
    surface.device.submit(surface.device.record().clear(surface, colour))


def seen(surface: Any) -> np.ndarray[Any, Any]:
    with surface.access(timeout=10, writable=False):
        found: np.ndarray[Any, Any] = surface.read()
        return found


def codes(colour: tuple[float, ...]) -> list[int]:
    return [round(each * 255) for each in colour]


# ---- G1 --------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("G1", "K17")
def test_each_side_sees_what_the_other_released(ends: Ends) -> None:
    for colour in (RED, GREEN, BLUE):
        for writer, reader in ends.both():
            fill(writer, colour)
            assert (seen(reader) == codes(colour)).all()
            fill(writer, RED, (3, 2, 5, 4))
            found = seen(reader)
            assert (found[2:6, 3:8] == codes(RED)).all()
            assert (found[6:] == codes(colour)).all()


@pytest.mark.rule("G1")
def test_where_the_memory_can_be_opened_it_is(vks_open: Callable[..., vks.Device]) -> None:
    a, b = vks_open(), vks_open()
    with a.create_surface(8, 8) as surface, b.mirror(surface) as handle, a.mirror(surface) as alias:
        assert not isinstance(handle, Mirror)
        assert not isinstance(alias, Mirror)
        with pytest.raises(TypeError, match="SurfaceDescriptor"):
            a.mirror("a surface")  # type: ignore[arg-type]


@pytest.mark.rule("G1", "K9")
def test_a_mirror_of_another_processs_surface_and_the_death_of_either_side(
    device: vks.Device, peers: Callable[..., Any]
) -> None:
    if device.backend == "cpu":
        pytest.skip("the runs on Vulkan drivers have two adapters")
    peer = peers(name="home")
    home = peer.device.create_surface(WIDTH, HEIGHT)
    with vks.open(backend="cpu") as other, home.export() as descriptor, other.mirror(descriptor) as mirror:
        fill(mirror, GREEN)
        home.acquire(0, 10)
        assert (home.read() == codes(GREEN)).all()
        peer.kill()
        with pytest.raises(AbandonedError):
            mirror.acquire(0, 10)
        mirror.recover()
        mirror.release(0)
        fill(mirror, BLUE)
        assert (seen(mirror) == codes(BLUE)).all()


@pytest.mark.rule("G1", "K7")
def test_a_mirror_that_is_closed_while_it_owns_abandons_the_surface(ends: Ends) -> None:
    fill(ends.home, RED)
    ends.mirror.acquire(0, 10)
    ends.mirror.close()
    with pytest.raises(AbandonedError):
        ends.home.acquire(0, 10)
    ends.home.recover()
    ends.home.release(0)
    assert (seen(ends.home) == codes(RED)).all()


@pytest.mark.rule("G1", "K7")
def test_a_mirror_whose_device_is_lost_while_it_owns_abandons_the_surface(ends: Ends) -> None:
    fill(ends.home, RED)
    ends.mirror.acquire(0, 10)
    fill_owned(ends.mirror, BLUE)
    ends.device._mark_lost()
    with pytest.raises(VkshareError):
        ends.mirror.release(0)
    with pytest.raises(AbandonedError):
        ends.home.acquire(0, 10)
    ends.home.recover()
    ends.home.release(0)
    assert (seen(ends.home) == codes(RED)).all()


@pytest.mark.rule("G1", "K27")
def test_a_turn_that_another_partys_death_has_spoilt_can_be_recovered(ends: Ends) -> None:
    ends.mirror.acquire(0, 10)
    with ends.device.mirror(ends.home) as second:
        ends.mirror.release(0)
        second.acquire(0, 10)
    with pytest.raises(AbandonedError):
        ends.mirror.acquire(0, 10)
    ends.mirror.recover()
    fill_owned(ends.mirror, BLUE)
    ends.mirror.release(0)
    with pytest.raises(AbandonedError):
        ends.home.acquire(0, 10)
    assert (seen(ends.home) == codes(BLUE)).all()


@pytest.mark.rule("G1")
def test_pixels_outlive_the_other_handles(ends: Ends) -> None:
    fill(ends.home, RED)
    ends.home.close()
    assert (seen(ends.mirror) == codes(RED)).all()
    fill(ends.mirror, BLUE)
    assert (seen(ends.mirror) == codes(BLUE)).all()


@pytest.mark.rule("G1", "K27")
def test_after_a_recovery_the_mirror_has_the_contents_of_the_surface(ends: Ends) -> None:
    fill(ends.home, GREEN)
    with ends.device.mirror(ends.home) as third:
        third.acquire(0, 10)
    ends.mirror.recover()
    assert (ends.mirror.read() == codes(GREEN)).all()
    ends.mirror.release(0)


@pytest.mark.rule("G1", "K25")
def test_in_gpu_mode_the_turn_waits_for_its_pixels_or_is_refused(ends: Ends) -> None:
    fill(ends.home, RED)
    ends.home.acquire(0, 10)
    if isinstance(ends.mirror, BridgedMirror):
        with pytest.raises(UnsupportedError, match="once the surface is owned"):
            ends.mirror.acquire(0, mode="gpu")
        ends.home.release(0)
        return
    ends.mirror.acquire(0, mode="gpu")
    commands = ends.device.record().fill_rect(ends.mirror, (0, 0, 1, 1), BLUE)
    ends.device.submit(commands)
    ends.mirror.release(4)
    ends.home.device.submit(ends.home.device.record().fill_rect(ends.home, (0, 0, WIDTH, HEIGHT), GREEN))
    ends.home.release(0)
    ends.home.acquire(4, 10)
    found = ends.home.read()
    assert (found[0, 0] == codes(BLUE)).all()
    assert (found[1:] == codes(GREEN)).all()
    ends.home.release(0)
    assert (seen(ends.mirror) == found).all()


@pytest.mark.rule("G1", "K15")
def test_an_acquire_that_times_out_copies_nothing_and_changes_nothing(ends: Ends) -> None:
    fill(ends.home, RED)
    with pytest.raises(AcquireTimeout):
        ends.mirror.acquire(5, 0)
    assert ends.mirror.statistics().pulls == 0
    ends.mirror.acquire(0, 0 if not isinstance(ends.mirror, BridgedMirror) else 10)
    with pytest.raises(TypeError):
        ends.mirror.release("key")
    assert ends.mirror.is_owned
    ends.mirror.release(0)


@pytest.mark.rule("G1")
@pytest.mark.parametrize("what", ["export", "open_surface", "publish"])
def test_its_image_is_no_other_partys(ends: Ends, what: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "export": ends.mirror.export,
        "open_surface": lambda: ends.device.open_surface(ends.mirror),
        "publish": lambda: ends.mirror.publish("a mirror"),
    }
    with pytest.raises(UnsupportedError, match="the surface that it mirrors"):
        calls[what]()


@pytest.mark.rule("G1")
def test_two_mirrors_of_one_device_are_two_parties(ends: Ends) -> None:
    with ends.device.mirror(ends.home) as second:
        for number, writer in enumerate((ends.mirror, second, ends.home, second, ends.mirror), 1):
            colour = (number / 255, 0, 0, 1)
            fill(writer, colour)
            for reader in (ends.home, second, ends.mirror):
                assert (seen(reader) == codes(colour)).all()


# ---- G2 --------------------------------------------------------------------------------------------------------------


def moved(mirror: Any) -> tuple[int, int, int, int]:
    found = mirror.statistics()
    return found.pulls, found.pulled_bytes, found.pushes, found.pushed_bytes


WHOLE = WIDTH * HEIGHT * 4


@pytest.mark.rule("G2")
def test_what_has_not_changed_is_not_copied_again(ends: Ends) -> None:
    mirror = ends.mirror
    fill(ends.home, RED)
    assert moved(mirror) == (0, 0, 0, 0)
    seen(mirror)
    seen(mirror)
    assert moved(mirror) == (1, WHOLE, 0, 0)
    fill(mirror, BLUE)
    assert moved(mirror) == (1, WHOLE, 1, WHOLE)
    seen(mirror)
    assert moved(mirror) == (1, WHOLE, 1, WHOLE)
    with ends.home.access(damage=()):
        pass
    seen(mirror)
    assert moved(mirror) == (1, WHOLE, 1, WHOLE)
    counts = mirror.statistics()
    assert counts.path in ("memory", "host")
    assert min(counts.pull_seconds, counts.push_seconds) > 0


@pytest.mark.rule("G2")
def test_turns_without_copies_take_no_time_for_them(ends: Ends) -> None:
    seen(ends.mirror)
    before = ends.mirror.statistics()
    for _ in range(3):
        seen(ends.mirror)
    after = ends.mirror.statistics()
    assert (after.pull_seconds, after.push_seconds) == (before.pull_seconds, before.push_seconds)
    assert after.push_seconds == 0


@pytest.mark.rule("G2")
def test_damage_narrows_the_copies_to_the_box_around_it(ends: Ends) -> None:
    home, mirror = ends.home, ends.mirror
    seen(mirror)
    fill(home, RED, (1, 2, 3, 4), damage=[(1, 2, 3, 4)])
    fill(home, BLUE, (5, 3, 2, 1), damage=[(5, 3, 2, 1), (0, 0, 0, 0)])
    found = seen(mirror)
    assert (found[2:6, 1:4] == codes(RED)).all()
    assert (found[3, 5:7] == codes(BLUE)).all()
    assert moved(mirror) == (2, WHOLE + 6 * 4 * 4, 0, 0)
    fill(mirror, GREEN, (31, 15, 1, 1), damage=[(31, 15, 1, 1)])
    assert moved(mirror)[2:] == (1, 4)
    assert (seen(home)[15, 31] == codes(GREEN)).all()


@pytest.mark.rule("G2")
def test_a_turn_without_damage_between_others_is_a_change_of_everything(ends: Ends) -> None:
    home, mirror = ends.home, ends.mirror
    seen(mirror)
    fill(home, RED, (0, 0, 1, 1), damage=[(0, 0, 1, 1)])
    fill(home, BLUE, (9, 9, 1, 1))
    fill(home, GREEN, (1, 0, 1, 1), damage=[(1, 0, 1, 1)])
    assert (seen(mirror) == seen(home)).all()
    assert moved(mirror)[1] == 2 * WHOLE


@pytest.mark.rule("G2")
@pytest.mark.parametrize("turns", [7, 8, 9, 30])
def test_more_turns_than_the_page_remembers_are_a_change_of_everything(ends: Ends, turns: int) -> None:
    home, mirror = ends.home, ends.mirror
    seen(mirror)
    for turn in range(turns):
        fill(home, (turn / 255, 0, 0, 1), (turn, 1, 1, 1), damage=[(turn, 1, 1, 1)])
    assert (seen(mirror)[1, :turns, 0] == range(turns)).all()
    assert moved(mirror)[1] == WHOLE + (turns * 4 if turns <= 8 else WHOLE)


@pytest.mark.rule("G2", "K31")
def test_a_body_that_raises_may_have_changed_everything(ends: Ends) -> None:
    seen(ends.mirror)
    for writer, reader in ends.both():
        with contextlib.suppress(ZeroDivisionError), writer.access(damage=[(0, 0, 1, 1)]) as view:
            writer.device.submit(writer.device.record().clear(view, BLUE))
            raise ZeroDivisionError
        assert (seen(reader) == codes(BLUE)).all()
        fill(writer, RED)


WRITERS: dict[str, Callable[[Any, Any], None]] = {
    "write": lambda surface, _: surface.write(np.full((HEIGHT, WIDTH, 4), 9, np.uint8)),
    "write_planes": lambda surface, _: surface.write_planes([np.full((HEIGHT, WIDTH, 4), 9, np.uint8)]),
    "array": lambda _, view: view.array.fill(9),
    "dlpack": lambda _, view: np.from_dlpack(view).fill(9),
    "memoryview": lambda _, view: np.asarray(memoryview(view)).fill(9),
    "clear": lambda surface, view: surface.device.submit(surface.device.record().clear(view, (9 / 255,) * 4)),
}


@pytest.mark.rule("G2")
@pytest.mark.parametrize("way", WRITERS)
def test_each_way_to_write_counts_and_reading_does_not(ends: Ends, way: str) -> None:
    mirror = ends.mirror
    if way in ("array", "dlpack", "memoryview") and not mirror.is_host_visible:
        pytest.skip("the CPU does not see this image")
    fill(ends.home, RED)
    with mirror.access() as view:
        mirror.read()
        mirror.read_planes()
        WRITERS[way](mirror, view)
    assert (seen(ends.home) == 9).all()
    before = moved(mirror)[2:]
    with mirror.access() as view, ends.device.create_surface(WIDTH, HEIGHT) as copy:
        mirror.read()
        mirror.read_planes()
        with copy.access():
            ends.device.submit(ends.device.record().copy(view, copy))
    assert moved(mirror)[2:] == before


@pytest.mark.rule("G2")
@pytest.mark.parametrize("damage", [[(0, 0, 33, 1)], [(-1, 0, 1, 1)], [(0, 0, 1, -1)], [(31, 15, 1, 2)]])
def test_damage_outside_the_surface_is_refused(device: vks.Device, damage: list[tuple[int, ...]]) -> None:
    with device.create_surface(WIDTH, HEIGHT) as surface, pytest.raises(ValueError, match="not inside the surface"):
        surface.access(damage=damage)


@pytest.mark.rule("G2")
@pytest.mark.parametrize("damage", [3, "box", [3], [(1, 2, 3)], [(0, 0, 1, 1.5)]])
def test_damage_that_is_no_list_of_rectangles_is_refused(device: vks.Device, damage: Any) -> None:
    with device.create_surface(WIDTH, HEIGHT) as surface, pytest.raises((TypeError, ValueError)):
        surface.access(damage=damage)


@pytest.mark.rule("G2", "X15")
@pytest.mark.parametrize("word", [0xFFFFFFFF, 0x7FFFFFFF80000000, 2**64 - 1, 31 | 15 << 32])
def test_damage_that_another_process_has_written_over_is_cut_to_the_surface(ends: Ends, word: int) -> None:
    seen(ends.mirror)
    fill(ends.home, RED, damage=[(0, 0, WIDTH, HEIGHT)])
    with ends.home.export() as descriptor, mmap.mmap(descriptor._fds[1], 8192) as page:
        for entry in range(8):
            start = DAMAGE + ENTRY * entry
            page[start + 8 : start + 16] = word.to_bytes(8, "little")
            page[start + 16 : start + 24] = word.to_bytes(8, "little")
    seen(ends.mirror)
    fill(ends.home, BLUE)
    assert (seen(ends.mirror) == codes(BLUE)).all()


@pytest.mark.rule("G1", "G2")
@pytest.mark.parametrize("seed", range(6))
def test_random_turns_of_three_parties_always_show_the_newest_pixels(ends: Ends, seed: int) -> None:
    random = np.random.default_rng(seed)
    with ends.device.mirror(ends.home) as second:
        parties = (ends.home, ends.mirror, second)
        expected = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
        for _ in range(60):
            party = parties[random.integers(3)]
            x, y = random.integers(WIDTH), random.integers(HEIGHT)
            width, height = random.integers(1, WIDTH - x + 1), random.integers(1, HEIGHT - y + 1)
            rect = tuple(map(int, (x, y, width, height)))
            options: dict[str, Any] = {"damage": [rect]} if random.integers(3) else {}
            number = int(random.integers(256))
            kind = random.integers(4)
            with party.access(timeout=10, **options) as view:
                if kind == 0:
                    assert (party.read() == expected).all()
                    continue
                if kind == 1 and party.is_host_visible:
                    view.array[y : y + height, x : x + width] = number
                else:
                    commands = party.device.record().fill_rect(view, rect, (number / 255,) * 4)
                    party.device.submit(commands)
                expected[y : y + height, x : x + width] = number
        for party in parties:
            assert (seen(party) == expected).all()


# ---- G3 --------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("G3")
@pytest.mark.parametrize("format", list(vks.formats.FORMATS))
def test_every_format_that_both_adapters_have_is_mirrored_bit_for_bit(device: vks.Device, format: str) -> None:
    if device.backend == "cpu":
        pytest.skip("the runs on Vulkan drivers have two adapters")
    random = np.random.default_rng(3)
    with vks.open(backend="cpu") as other:
        for made, mirrored in ((device, other), (other, device)):
            try:
                home = made.create_surface(WIDTH, HEIGHT, format)
            except UnsupportedError as error:
                pytest.skip(str(error))
            with home, mirrored.mirror(home) as mirror:
                for writer, reader in ((home, mirror), (mirror, home)):
                    with writer.access(timeout=10):
                        shapes = [each.shape for each in writer.read_planes()]
                        dtype = writer._dtype
                        arrays = [_codes(random, shape, dtype) for shape in shapes]
                        writer.write_planes(arrays)
                    with reader.access(timeout=10, writable=False):
                        for found, expected in zip(reader.read_planes(), arrays, strict=True):
                            assert found.tobytes() == expected.tobytes()


def _codes(random: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    if np.dtype(dtype).kind == "f":
        return random.random(shape).astype(dtype)
    bits = random.integers(0, np.iinfo(dtype).max, shape, endpoint=True)
    return bits.astype(dtype)


@pytest.mark.rule("G3")
def test_a_format_that_the_other_adapter_lacks_is_refused_and_both_are_named(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise UnsupportedError("linear rgba8unorm surfaces", "the driver has none")

    monkeypatch.setattr(type(ends.device._backend), "create_image", refuse)
    with pytest.raises(UnsupportedError) as error:
        ends.device.mirror(ends.home)
    assert ends.device.adapter.name in str(error.value)
    assert ends.home.device.name in str(error.value)


@pytest.mark.rule("G1")
def test_pixels_in_a_drivers_own_order_need_that_driver_here(
    device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device.backend == "cpu" or "optimal" not in device.capabilities.tilings:
        pytest.skip("no surfaces in a driver's own order")
    with vks.open(backend="cpu") as other, device.create_surface(8, 8, tiling="optimal") as surface:
        monkeypatch.setattr("vkshare.core.adapter.adapters", lambda *_: [])
        with pytest.raises(DeviceMismatchError, match="no adapter of this process is that one"):
            other.mirror(surface)
