"""The formats of 16 bits a channel, and of whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vkshare as vks
from vkshare import formats
from vkshare.backends.base import ImageSpec
from vkshare.backends.vulkan import support
from vkshare.errors import UnsupportedError
from vkshare.testing import assert_images_equal

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.rule("E6"),
    pytest.mark.driver_dependent,
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]

NAMES = ("r16float", "rg16float", "r16unorm", "rg16unorm", "rgba16unorm", "r32uint")
LARGEST = 2**32 - 1

Open = Callable[..., vks.Device]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest, device: vks.Device) -> str:
    found: str = request.param
    if found not in device.capabilities.formats:
        pytest.skip(f"no {found}: {device.capabilities.reasons[f'format {found}']}")
    return found


def noise(surface: vks.Surface) -> np.ndarray:
    random = np.random.default_rng(3)
    dtype: np.dtype[Any] = surface.spec.format.numpy_dtype
    if dtype.kind == "f":
        return random.normal(0, 100, surface.shape).astype(dtype)
    return random.integers(0, np.iinfo(dtype).max, surface.shape, dtype, endpoint=True)


def cleared(device: vks.Device, name: str, colour: Any) -> np.ndarray:
    """What a surface holds: cleared to the colour, but for a column that was filled with it instead."""
    with device.create_surface(5, 3, name) as surface, surface.access() as view:
        device.submit(device.record().clear(view, colour).fill_rect(view, (0, 0, 1, 3), colour))
        return surface.read()


# ---- all of them -----------------------------------------------------------------------------------------------------


def test_another_device_opens_it_and_reads_what_was_written_and_copied(
    device: vks.Device, vks_open: Open, name: str
) -> None:
    elsewhere = vks_open(name="other")
    for tiling in sorted(device.capabilities.tilings):
        source = device.create_surface(37, 11, name, tiling=tiling)
        target = device.create_surface(40, 20, name, tiling=tiling)
        with target.export() as descriptor:
            other = elsewhere.open_surface(descriptor)
        assert (other.format, other.shape) == (name, (20, 40, formats.get(name).channels))
        pixels = noise(source)
        with source.access() as view, target.access(release=1) as picture:
            source.write(pixels)
            device.submit(device.record().copy(view, picture, (2, 1, 30, 10), (5, 6)))
        with other.access(acquire=1):
            seen = other.read()
        expected = np.zeros_like(seen)
        expected[6:16, 5:35] = pixels[1:11, 2:32]
        np.testing.assert_array_equal(seen, expected)


def test_arrays_and_dlpack_are_the_memory_itself(device: vks.Device, name: str) -> None:
    if not device.capabilities.host_visible:
        pytest.skip(f"no host_visible: {device.capabilities.reasons['host_visible']}")
    surface = device.create_surface(9, 4, name, tiling="linear")
    pixels = noise(surface)
    with surface.access() as view:
        view.array[...] = pixels
        shared = np.from_dlpack(view)
        assert shared.dtype == view.dtype == formats.get(name).numpy_dtype
        assert np.shares_memory(shared, view.array)
        np.testing.assert_array_equal(shared, pixels)
        np.testing.assert_array_equal(np.asarray(memoryview(view)), pixels)
        assert surface.statistics().copied_bytes == 0
        assert_images_equal(surface.read(), pixels)


@pytest.mark.parametrize("name", NAMES[:-1], indirect=True)
@pytest.mark.parametrize("colour", [(0.2, 0.6, 1.0, 0.4), (1 / 65535, 2.0, -1.0, 0.5 / 65535), (2**-24, 65519.0, 0, 1)])
def test_a_clear_and_a_fill_store_the_nearest_value(device: vks.Device, name: str, colour: tuple[float, ...]) -> None:
    seen = cleared(device, name, colour)
    wanted = np.array(colour[: seen.shape[2]], np.float32)
    if seen.dtype == np.uint16:
        wanted = np.rint(np.clip(wanted, 0, 1) * np.float32(65535))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(seen, np.broadcast_to(wanted.astype(seen.dtype), seen.shape))


def test_a_format_that_a_driver_lacks_is_refused_with_the_reason(device: vks.Device) -> None:
    for each in NAMES:
        for tiling in sorted(device.capabilities.tilings):
            if each in device.capabilities.formats:
                device.create_surface(4, 4, each, tiling=tiling).close()
                continue
            why = device.capabilities.reasons[f"format {each}"]
            with pytest.raises(UnsupportedError, match=each) as caught:
                device.create_surface(4, 4, each, tiling=tiling)
            assert caught.value.why == why


def test_capabilities_leave_out_what_one_tiling_lacks_and_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(physical: Any, spec: ImageSpec, *_: int) -> bool:
        if spec.format.name == "rg16unorm" and spec.tiling == "linear":
            raise UnsupportedError("linear rg16unorm surfaces", f"{physical.name} answers no")
        return False

    monkeypatch.setattr(support, "check", check)
    specs = [ImageSpec(8, 8, formats.get(n), t, frozenset({"render"})) for n in NAMES for t in ("linear", "optimal")]
    physical: Any = SimpleNamespace(name="a driver")
    names, reasons = support.formats(physical, specs)
    assert names == set(NAMES) - {"rg16unorm"}
    assert reasons == {"format rg16unorm": "a driver answers no"}


# ---- whole numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("red", "stored"),
    [
        (0, 0),
        (2**24 + 1, 2**24 + 1),  # no 32-bit float
        (LARGEST, LARGEST),
        (LARGEST - 1.0, LARGEST - 1),
        (np.uint32(4_000_000_007), 4_000_000_007),
        (0x7F800001, 0x7F800001),  # as a float, a NaN that moves may change
        (2.5, 2),
        (3.5, 4),
        (-7, 0),
        (2**32, LARGEST),
        (1e30, LARGEST),
    ],
)
def test_a_number_is_rounded_and_clamped_and_no_bit_is_lost(device: vks.Device, red: Any, stored: int) -> None:
    seen = cleared(device, "r32uint", (red, 0.5, 0.5, 0.5))
    assert seen.dtype == np.uint32
    assert seen.shape == (3, 5, 1)
    assert (seen == stored).all()


def test_commands_that_compute_refuse_integers_in_the_same_words_everywhere(device: vks.Device) -> None:
    corners = [(0, 0, 0, 0), (1, 0, 1, 0), (0, 1, 0, 1)]
    coloured = [(0, 0, 1, 0, 0, 1), (1, 0, 1, 0, 0, 1), (0, 1, 1, 0, 0, 1)]

    def refusals(on: vks.Device) -> list[str]:
        whole, other, colours = (on.create_surface(8, 8, n) for n in ("r32uint", "r32uint", "r32float"))
        commands = on.record()
        calls: list[tuple[str, Callable[[], object]]] = [
            ("source", lambda: commands.blit(whole, other, filter="nearest")),
            ("source", lambda: commands.blit(whole, colours)),
            ("target", lambda: commands.blit(colours, whole)),
            ("source", lambda: commands.composite(whole, colours)),
            ("target", lambda: commands.composite(colours, whole, opacity=0.5, alpha="straight")),
            ("target", lambda: commands.draw_triangles(whole, coloured)),
            ("texture", lambda: commands.draw_triangles(colours, corners, whole, "nearest")),
        ]
        texts = []
        for which, call in calls:
            with pytest.raises(UnsupportedError, match=f"{which} has format r32uint, and integers are not") as caught:
                call()
            texts.append(str(caught.value))
        assert len(commands) == 0, "a refused command is not recorded"
        commands.clear(whole, (7, 0, 0, 0)).copy(whole, other)
        with whole.access(), other.access():
            on.submit(commands)
            assert (other.read() == 7).all(), "the list goes on"
        return texts

    texts = refusals(device)
    assert texts[0] == (
        "CommandList.blit() is not supported: source has format r32uint, and integers are not scaled, converted, "
        "sampled or blended; clear(), fill_rect() and copy() take them"
    )
    with vks.open(backend="cpu") as cpu:
        assert texts == refusals(cpu)
