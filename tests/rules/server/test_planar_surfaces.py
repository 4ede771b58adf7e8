"""Surfaces in planes through the render server: they keep their colour, and its commands convert. Rules Y1 to Y3."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.pixel_formats import PLANAR
from support.planar_pictures import exact, noise
from support.render_servers import Place

import vkshare as vks
from vkshare.color import BT709, SRGB, Color

pytest_plugins = ["support.server_fixtures"]
pytestmark = pytest.mark.rule("Y1", "Y2", "Y3", "R5")

HDR = Color("bt2020", "pq", "bt2020", "limited", "top-left")


@pytest.fixture(autouse=True)
def _has_planes(vks_device: vks.Device) -> None:
    missing = [name for name in PLANAR if name not in vks_device.capabilities.formats]
    if missing:
        pytest.skip(f"no {missing[0]}: {vks_device.capabilities.reasons[f'format {missing[0]}']}")


@pytest.mark.driver_dependent
@pytest.mark.parametrize("name", PLANAR)
def test_a_surface_that_the_server_makes_has_the_clients_colour_and_is_converted(
    place: Place, vks_open: Callable[..., vks.Device], name: str
) -> None:
    client = place.client(place.server(vks_open()), device=vks_open())
    video, target = client.create_surface(34, 18, name, color=HDR), client.create_surface(34, 18)
    assert video.surface is not None
    assert target.surface is not None
    assert (video.color, video.surface.color, target.color) == (HDR, HDR, SRGB)
    planes = noise(video.surface)
    with video.surface.access(0, 1, 20):
        video.surface.write_planes(planes)
    commands = client.record().blit(video, target, filter="nearest")
    client.submit(commands, acquire={video: 1, target: 0}, release={video: 0, target: 1})
    with target.surface.access(1, 0, 60):
        assert np.abs(target.surface.read()[..., :3] - exact(planes, name, HDR) * 255).max() <= 1
    client.sync(60)


@pytest.mark.driver_dependent
def test_a_clients_own_surface_in_planes_keeps_its_colour_in_the_server(
    place: Place, vks_open: Callable[..., vks.Device]
) -> None:
    device = vks_open()
    server = place.server(vks_open())
    client, other = place.client(server), place.client(server)
    with device.create_surface(16, 8, "nv12", color=HDR) as mine:
        with client.open_surface(mine) as served:
            assert served.color == HDR
            client.submit(client.record().clear(served, (1, 1, 1, 1)), acquire={served: 0}, release={served: 1})
            with mine.access(1, 0, 20):
                luma, chroma = mine.read_planes()
            assert (luma == 235).all()
            assert (chroma == 128).all()
        default = other.create_surface(16, 8, "nv12")
        assert default.color == BT709
        assert default.descriptor is not None
        with device.open_surface(default.descriptor) as opened:
            assert opened.color == BT709


@pytest.mark.no_driver
def test_a_colour_that_the_format_cannot_have_is_refused(place: Place) -> None:
    client = place.client(place.server(), device=place.device())
    with pytest.raises(ValueError, match="color has the matrix 'rgb'; allowed is 'bt709', 'bt601', 'bt2020'"):
        client.create_surface(8, 8, "nv12", color=SRGB)
    with pytest.raises(TypeError, match="color must be a Color, not str"):
        client.create_surface(8, 8, "nv12", color="bt709")  # type: ignore[arg-type]
    client.sync()
