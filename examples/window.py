"""The smallest useful program: a window with a triangle, which may be resized, hidden and closed."""

import vkshare as vks

TRIANGLE = [  # x, y (down), red, green, blue, alpha
    (0.0, -0.8, 1, 0, 0, 1),
    (0.8, 0.8, 0, 1, 0, 1),
    (-0.8, 0.8, 0, 0, 1, 1),
]


def main():
    with (
        vks.open() as device,
        vks.Window(640, 480, "triangle") as window,
        device.create_swapchain(window) as swapchain,
    ):
        while not window.should_close:
            window.poll()
            with swapchain.frame() as frame:
                commands = device.record().clear(frame.view, (0, 0, 0, 1)).draw_triangles(frame.view, TRIANGLE)
                device.submit(commands)


if __name__ == "__main__":
    main()
