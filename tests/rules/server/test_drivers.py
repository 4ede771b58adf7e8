"""The same clients on whichever driver the run is about. Rules R4 to R7, R10, R16."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.render_servers import Place

import vkshare as vks
from vkshare.errors import DeviceLostError, NotOwnerError

pytest_plugins = ["support.server_fixtures"]


@pytest.mark.rule("R4", "R6", "R7")
def test_two_clients_draw_in_turn_on_one_surface_and_each_sees_the_other(
    place: Place, vks_open: Callable[..., vks.Device]
) -> None:
    server = place.server(vks_open())
    device = vks_open()
    first, second = place.client(server, device=device), place.client(server, device=device)
    shared = first.create_surface(64, 64, usage=("render", "sample", "copy"))
    assert shared.surface is not None
    theirs = second.open_surface(shared.surface)
    for turn in range(20):
        left = first.record().fill_rect(shared, (turn, 0, 1, 64), (turn / 255, 0, 0, 1))
        right = second.record().fill_rect(theirs, (63 - turn, 0, 1, 64), (0, turn / 255, 0, 1))
        first.submit(left, acquire={shared: 2 * turn}, release={shared: 2 * turn + 1})
        second.submit(right, acquire={theirs: 2 * turn + 1}, release={theirs: 2 * turn + 2})
    first.sync(60)
    second.sync(60)
    shared.surface.acquire(40, 60)
    pixels = shared.surface.read()
    assert pixels[0, :20, 0].tolist() == list(range(20))
    assert pixels[5, 44:, 1].tolist() == list(range(20))[::-1]
    shared.surface.release(40)


@pytest.mark.rule("R5", "R6")
def test_errors_of_the_driver_come_with_the_number_of_their_request(
    place: Place, vks_open: Callable[..., vks.Device]
) -> None:
    client = place.client(place.server(vks_open()), device=vks_open())
    surface, fence = client.create_surface(16, 16), client.create_fence()
    number = client.submit(client.record().clear(surface, (1, 1, 1, 1)))
    with pytest.raises(NotOwnerError) as raised:
        client.sync(60)
    assert raised.value.sequence == number  # type: ignore[attr-defined]
    triangle = np.array([[-1, -1, 1, 1, 0, 1], [3, -1, 1, 1, 0, 1], [-1, 3, 1, 1, 0, 1]], np.float32)
    commands = client.record().draw_triangles(surface, triangle)
    client.submit(commands, acquire={surface: 0}, release={surface: 1}, signals=[(fence, 7)])
    fence.wait(7, 60)
    assert surface.surface is not None
    surface.surface.acquire(1, 60)
    assert surface.surface.read()[8, 8].tolist() == [255, 255, 0, 255]


@pytest.mark.rule("R16")
def test_a_lost_device_is_followed_by_another(place: Place, vks_open: Callable[..., vks.Device]) -> None:
    devices: list[vks.Device] = []

    def factory() -> vks.Device:
        devices.append(vks_open())
        return devices[-1]

    client = place.client(place.server(factory), device=vks_open())
    client.create_surface(16, 16)
    devices[0]._mark_lost()
    with pytest.raises(DeviceLostError):
        client.create_surface(16, 16)
    surface = client.create_surface(16, 16)
    client.submit(client.record().clear(surface, (0, 1, 0, 1)), acquire={surface: 0}, release={surface: 1})
    assert surface.surface is not None
    surface.surface.acquire(1, 60)
    assert surface.surface.read()[0, 0].tolist() == [0, 255, 0, 255]


@pytest.mark.rule("R15")
def test_a_process_of_its_own_opens_the_same_adapter(place: Place, vks_open: Callable[..., vks.Device]) -> None:
    device = vks_open()
    client = place.client(place.server(device, isolation="process"), device=device, timeout=90)
    surface = client.create_surface(16, 16)
    client.submit(client.record().clear(surface, (0, 0, 1, 1)), acquire={surface: 0}, release={surface: 1})
    assert surface.surface is not None
    surface.surface.acquire(1, 60)
    assert surface.surface.read()[0, 0].tolist() == [0, 0, 255, 255]
