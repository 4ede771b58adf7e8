"""Pictures of a renderer against references: `pytest examples/testing`, also with `-n 2` of pytest-xdist."""

import pytest

import vkshare as vks

TRIANGLE = [  # x, y (down), red, green, blue, alpha
    (0.0, -0.8, 1, 0, 0, 1),
    (0.8, 0.8, 0, 1, 0, 1),
    (-0.8, 0.8, 0, 0, 1, 1),
]


def draw(device, surface, background):
    device.submit(device.record().clear(surface, background).draw_triangles(surface, TRIANGLE))


@pytest.mark.parametrize("background", ["black", "white"])
def test_a_triangle(vks_device, vks_golden, background):
    colour = (0, 0, 0, 1) if background == "black" else (1, 1, 1, 1)
    with vks_device.create_surface(160, 120) as surface, surface.access() as view:
        draw(vks_device, surface, colour)
        # Drivers round colours and edges in their own ways: 2/255, and more in one pixel of a hundred.
        vks_golden(view, f"triangle-{background}", tolerance=2, differing=0.01)


def test_a_viewer_gets_its_surface_back(vks_device, vks_open):
    surface = vks_device.create_surface(160, 120)
    with surface.export() as descriptor, vks_open(name="viewer") as viewer:
        theirs = viewer.open_surface(descriptor)
        with theirs.access(acquire=0, release=1):
            pass
        surface.acquire(1, timeout=5)
    surface.close()
    assert isinstance(vks_device, vks.Device)
