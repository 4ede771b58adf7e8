"""One process draws into a surface, another reads it: the hand-over is a key."""

import multiprocessing

import vkshare as vks

TRIANGLE = [  # x, y (down), red, green, blue, alpha
    (0.0, -0.8, 1, 0, 0, 1),
    (0.8, 0.8, 0, 1, 0, 1),
    (-0.8, 0.8, 0, 0, 1, 1),
]


def viewer(descriptor, adapter):
    with (
        vks.open(adapter, name="viewer") as device,
        device.open_surface(descriptor) as surface,
        surface.access(acquire=1, release=0),  # waits for a release with key 1
    ):
        print("the middle pixel is", surface.read()[540, 960])


def main():
    with vks.open(name="renderer") as device:  # the best GPU here, else software Vulkan, else the CPU backend
        surface = device.create_surface(1920, 1080, "rgba8unorm")
        arguments = surface.export(), device.adapter.uuid
        other = multiprocessing.get_context("spawn").Process(target=viewer, args=arguments)
        other.start()
        with surface.access(acquire=0, release=1) as view:  # own it; on exit release it with key 1
            device.submit(device.record().clear(view, (0, 0, 0, 1)).draw_triangles(view, TRIANGLE))
        with surface.access(acquire=0):  # it comes back with key 0
            pass
        other.join()
        surface.close()


if __name__ == "__main__":
    main()
