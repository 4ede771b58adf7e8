"""Two handles of a surface on one device: one image, and a party each."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import access_patterns
from support.fd_counts import open_fds

import vkshare as vks
from vkshare.cli import ps
from vkshare.errors import AbandonedError, ClosedError, InvalidCallError, NotOwnerError, UnsupportedError

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.driver_dependent,
    pytest.mark.wheel,
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
]

Open = Callable[..., vks.Device]


@pytest.fixture
def surface(device: vks.Device) -> vks.Surface:
    return device.create_surface(24, 10)


COVERING = (-1, -1), (3, -1), (-1, 3)  # corners of a triangle over all pixels


def mappings() -> int:
    """Count the mappings of files, memfds among them: malloc() makes others at any time."""
    gc.collect()
    return sum("/" in line for line in Path("/proc/self/maps").read_text().splitlines())


# ---- one image -----------------------------------------------------------------------------------------------------


def test_a_second_handle_on_the_same_device_has_the_same_image_and_opens_nothing(
    device: vks.Device, surface: vks.Surface
) -> None:
    device.open_surface(surface).close()  # the service threads, with fds of their own, are there
    fds, maps = open_fds(), mappings()
    second = device.open_surface(surface)
    assert (open_fds(), mappings()) == (fds, maps)
    assert (second.image, second.image_view) == (surface.image, surface.image_view)
    assert (second.spec, second.stride, second.shape) == (surface.spec, surface.stride, surface.shape)
    assert second is not surface
    assert surface.mutex.statistics().handles == 2


@pytest.mark.rule("K17", "K18")
def test_each_handle_sees_what_the_other_one_drew_by_cpu_and_by_gpu(device: vks.Device) -> None:
    for tiling in sorted(device.capabilities.tilings):
        first = device.create_surface(24, 10, tiling=tiling)
        second = device.open_surface(first)
        for turn, (writer, reader) in enumerate([(first, second), (second, first)] * 4):
            writer.acquire(turn, 5)
            by_gpu = turn // 2 % 2
            (access_patterns.clear if by_gpu else access_patterns.draw)(writer, turn)
            writer.release(turn + 1)
            copy = device.create_surface(24, 10, tiling=tiling)
            reader.acquire(turn + 1, 5)
            with copy.access():
                access_patterns.copy(reader, copy)
                for seen in (reader.read(), copy.read()):
                    assert (
                        access_patterns.is_clear(seen, turn)
                        if by_gpu
                        else (seen == access_patterns.picture(seen.shape, turn)).all()
                    )
            reader.release(turn + 1)


@pytest.mark.rule("K17", "K18")
def test_a_copy_sees_what_an_image_of_its_own_over_the_same_memory_drew(device: vks.Device) -> None:
    size, rounds = 512, 20
    for tiling in sorted(device.capabilities.tilings):
        if tiling == "linear" and device.adapter.kind == "gpu":
            continue  # NVIDIA draws no triangles on linear surfaces
        with (
            device.create_surface(size, size, tiling=tiling) as surface,
            surface.export() as descriptor,
            device.open_surface(descriptor) as writer,
            device.open_surface(descriptor) as reader,
            device.create_surface(size, size) as copied,
        ):
            for turn in range(rounds):
                with writer.access() as view:
                    drawn = device.record()
                    for layer in range(20):
                        colour = turn / 255, layer / 255, 0, 1
                        drawn.draw_triangles(view, np.array([(x, y, *colour) for x, y in COVERING], np.float32))
                    device.submit(drawn)
                with reader.access() as view, copied.access() as to:
                    device.submit(device.record().copy(view, to))
                    seen = copied.read()
                assert np.abs(seen.astype(int) - (turn, 19, 0, 255)).max() <= 1, (tiling, turn)


def test_hand_overs_on_one_device_submit_nothing_until_the_surface_is_exported(device: vks.Device) -> None:
    first = device.create_surface(24, 10)
    second = device.open_surface(first)

    def submitted_by(*handles: vks.Surface, times: int = 1) -> int:
        before = device.statistics().submitted
        for handle in handles:
            with handle.access(0, 0, 5):
                for _ in range(times):
                    access_patterns.clear(handle, 1)
        return device.statistics().submitted - before

    assert submitted_by(first, second, first, second) == 4
    before = device.statistics().submitted
    first.export().close()
    transfers = int(device.backend == "vulkan")  # the CPU backend has none
    assert device.statistics().submitted - before == transfers
    assert submitted_by(first, second, first, second) == 4  # each hands on with its work
    assert submitted_by(first, second, first, second, times=2) == 8 + 4 * transfers


@pytest.mark.rule("K5", "K7", "K21")
def test_two_handles_of_one_device_are_two_parties(device: vks.Device, surface: vks.Surface) -> None:
    second = device.open_surface(surface)
    surface.acquire(0, 0)
    for use in (second.read, lambda: access_patterns.clear(second, 1), second.release):
        with pytest.raises(NotOwnerError):
            use()
    assert (surface.is_owned, second.is_owned) == (True, False)
    surface.close()
    with pytest.raises(AbandonedError):
        second.acquire(0, 5)
    second.recover()
    access_patterns.draw(second, 3)
    assert access_patterns.is_picture(second, 3)


def test_a_handle_of_another_device_of_this_process_is_opened_from_the_surface_itself(
    surface: vks.Surface, vks_open: Open
) -> None:
    other = vks_open(name="other")
    before = open_fds()
    theirs = other.open_surface(surface)
    theirs.close()
    other.record()
    del theirs
    assert len(open_fds()) <= len(before) + 2  # at most the service threads' own
    theirs = other.open_surface(surface)
    with surface.access(0, 1):
        access_patterns.draw(surface, 9)
    with theirs.access(1, 0, 5):
        assert access_patterns.is_picture(theirs, 9)
    assert theirs.device is other


# ---- ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("I11", "K20")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_handles_are_closed_in_every_order_with_work_in_flight_and_the_last_still_works(
    device: vks.Device, vks_open: Open, order: tuple[int, int, int]
) -> None:
    elsewhere = vks_open()
    first = device.create_surface(128, 128)
    second = device.open_surface(first)
    handles = [first, second, device.open_surface(second)]
    for turn, which in enumerate(order):
        handle = handles[which]
        handle.acquire(turn, 5)
        for _ in range(20):
            access_patterns.clear(handle, turn + 1)
        handle.release(turn + 1)
        survivors = [handles[n] for n in order[turn + 1 :]]
        handle.close()
        for other in survivors:
            other.acquire(turn + 1, 5)
            assert access_patterns.is_clear(other.read(), turn + 1)
            other.release(turn + 1)
        for other in survivors[:1]:
            with elsewhere.open_surface(other) as theirs, theirs.access(turn + 1, turn + 1, 5):
                assert access_patterns.is_clear(theirs.read(), turn + 1)
    device.wait_idle(10)
    device.record()  # reaps
    assert (device.statistics().surfaces, device.statistics().buried) == (0, 0)


@pytest.mark.rule("I11")
def test_an_array_of_one_handle_keeps_the_memory_after_all_handles_are_closed(device: vks.Device) -> None:
    surface = device.create_surface(64, 64, tiling="linear", usage=("copy",))
    if not surface.is_host_visible:
        pytest.skip("the CPU cannot see the memory")
    second = device.open_surface(surface)
    with second.access() as view:
        array = view.array
        array[...] = 42
    flat = array.data
    for handle in (surface, second):
        handle.close()
        device.record()  # reaps
    assert device.statistics().buried >= 1
    assert (array == 42).all()
    assert flat[63, 63, 3] == 42
    with pytest.raises(ClosedError):
        second.read()
    with pytest.raises(InvalidCallError):
        view.array  # noqa: B018
    del array, flat
    gc.collect()
    device.record()
    assert device.statistics().buried == 0


@pytest.mark.rule("I11")
def test_an_array_outlives_its_device(vks_open: Open) -> None:
    device = vks_open()
    surface = device.create_surface(64, 64, tiling="linear", usage=("copy",))
    if not surface.is_host_visible:
        pytest.skip("the CPU cannot see the memory")
    second = device.open_surface(surface)
    with second.access() as view:
        array = np.asarray(view)
        array[...] = 17
    device.close()
    assert (array == 17).all()


@pytest.mark.rule("K20")
def test_a_thousand_handles_opened_and_closed_leave_nothing_behind(device: vks.Device, surface: vks.Surface) -> None:
    def some(count: int) -> tuple[int, int]:
        for turn in range(count):
            with device.open_surface(surface) as handle:
                if turn % 10 == 0:
                    handle.acquire(0, 5)
                    access_patterns.clear(handle, turn)
                    handle.release(0)
        device.wait_idle(10)
        device.record()
        return len(open_fds()), mappings()

    before, kib = some(200), access_patterns.resident_kib()
    after = some(1000)
    assert after[0] == before[0]
    assert after[1] <= before[1] + 2  # the allocator's own
    assert access_patterns.resident_kib() - kib < 2048
    assert (device.statistics().surfaces, device.statistics().buried) == (1, 0)


@pytest.mark.rule("K20")
def test_a_device_closes_with_handles_of_one_image_open(vks_open: Open) -> None:
    device = vks_open()
    surface = device.create_surface(24, 10)
    handles = [device.open_surface(surface) for _ in range(3)]
    handles[1].acquire(0, 0)
    access_patterns.clear(handles[1], 1)
    device.close()
    assert all(handle.is_closed for handle in [surface, *handles])
    with pytest.raises(ClosedError):
        device.open_surface(surface)


def test_a_descriptor_of_a_handle_whose_original_is_closed_opens_elsewhere(
    device: vks.Device, surface: vks.Surface, vks_open: Open
) -> None:
    second = device.open_surface(surface)
    with surface.access(0, 1):
        access_patterns.draw(surface, 5)
    surface.close()
    theirs = vks_open().open_surface(second)
    with theirs.access(1, 2, 5):
        assert access_patterns.is_picture(theirs, 5)
        access_patterns.draw(theirs, 6)
    with second.access(2, 0, 5):
        assert access_patterns.is_picture(second, 6)


# ---- what is told, and what is refused -------------------------------------------------------------------------------


@pytest.mark.rule("K33")
def test_statistics_repr_and_ps_count_every_handle(vks_open: Open) -> None:
    device = vks_open(name="two apis")
    surface = device.create_surface(31, 17)
    second = device.open_surface(surface)
    second.acquire(0, 0)
    assert device.statistics().surfaces == 2
    assert "not owned" in repr(surface)
    assert repr(second).endswith("linear, owned>" if second.tiling == "linear" else "optimal, owned>")
    (reported,) = [s for s in ps.collect()["surfaces"] if (s["width"], s["height"]) == (31, 17)]
    assert [handle["device"] for handle in reported["handles"]] == ["two apis", "two apis"]
    assert reported["owner"]["device"] == "two apis"
    surface.close()
    assert device.statistics().surfaces == 1
    (reported,) = [s for s in ps.collect()["surfaces"] if (s["width"], s["height"]) == (31, 17)]
    assert len(reported["handles"]) == 1


@pytest.mark.rule("K21")
def test_each_handle_has_its_own_word_on_use_without_owning(device: vks.Device, surface: vks.Surface) -> None:
    tolerant = device.open_surface(surface, unowned="discard")
    assert not tolerant.read().any()
    access_patterns.draw(tolerant, 1)
    with pytest.raises(NotOwnerError):
        surface.read()
    with surface.access():
        assert not surface.read().any()
    with pytest.raises(ValueError, match="unowned"):
        device.open_surface(surface, unowned="perhaps")


def test_only_open_surfaces_and_descriptors_are_opened(device: vks.Device, surface: vks.Surface) -> None:
    for strange in (None, 3, device, "surface"):
        with pytest.raises(TypeError, match="surface must be a Surface or a SurfaceDescriptor, not"):
            device.open_surface(strange)  # type: ignore[arg-type]
    surface.close()
    with pytest.raises(ClosedError):
        device.open_surface(surface)


def test_a_swapchains_image_is_not_shared(device: vks.Device, vks_open: Open) -> None:
    with device.create_swapchain(vks.Headless(16, 16)) as swapchain, swapchain.frame() as frame:
        shown = frame.view.surface
        for opener in (device, vks_open()):
            with pytest.raises(UnsupportedError, match="swapchain"):
                opener.open_surface(shown)


def test_more_handles_than_a_page_has_slots_are_refused_and_nothing_is_lost(
    device: vks.Device, surface: vks.Surface
) -> None:
    handles = []
    with pytest.raises(vks.VkshareError, match="120"):  # noqa: PT012
        while len(handles) < 200:
            handles.append(device.open_surface(surface))
    assert len(handles) == 119
    handles.pop().close()
    device.open_surface(surface).close()
