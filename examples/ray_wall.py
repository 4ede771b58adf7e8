"""A wall of four tiles, which Ray's actors draw on any nodes; a renderer is killed while another actor shows them."""

import argparse
import time
from contextlib import ExitStack

import ray

import vkshare as vks

vks.ray.register()  # before the classes of the actors

WIDTH, HEIGHT = 320, 180  # of a tile
PLACES = [(0, 0), (WIDTH, 0), (0, HEIGHT), (WIDTH, HEIGHT)]
COLOURS = [(1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1), (1, 1, 1, 1)]
WORK = 0.05  # seconds that a tile takes


@ray.remote(enable_tensor_transport=True, num_cpus=0, scheduling_strategy="SPREAD")
class Renderer:
    def __init__(self):
        self.device = vks.open(name="renderer")
        self.pool = vks.ray.Pool(self.device, WIDTH, HEIGHT, count=8)

    @ray.method(tensor_transport="vkshare")
    def tile(self, place):
        time.sleep(WORK)
        with self.pool.frame() as frame:
            self.device.submit(self.device.record().clear(frame, COLOURS[place]))
        return frame


@ray.remote(enable_tensor_transport=True, num_cpus=0)
class Wall:
    def __init__(self, in_window):
        self.device = vks.open(name="wall")
        vks.ray.use(self.device)
        size = 2 * WIDTH, 2 * HEIGHT
        target = vks.Window(*size, title="wall") if in_window else vks.Headless(*size)
        self.swapchain = self.device.create_swapchain(target)

    def show(self, *tiles):
        with self.swapchain.frame() as frame, ExitStack() as owned:
            commands = self.device.record()
            for tile, place in zip(tiles, PLACES, strict=True):
                commands.composite(owned.enter_context(tile.access(writable=False)), frame.view, at=place)
            self.device.submit(commands)

    def middles(self):
        picture = self.swapchain.capture()
        return [picture[y + HEIGHT // 2, x + WIDTH // 2].tolist() for x, y in PLACES]


def pictures(wall, renderers, seconds):
    """Shows the tiles of the renderers for so long, two pictures ahead; returns the pictures a second."""
    begun, shown, ahead = time.monotonic(), 0, []
    while (lasted := time.monotonic() - begun) < seconds or ahead:
        if lasted < seconds:
            tiles = [renderers[place % len(renderers)].tile.remote(place) for place in range(4)]
            ahead.append(wall.show.remote(*tiles))
        if len(ahead) > 2 or lasted >= seconds:
            ray.get(ahead.pop(0))
            shown += 1
    return shown / lasted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--renderers", type=int, choices=(1, 2, 4), default=4)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--window", action="store_true")
    options = parser.parse_args()
    ray.init(log_to_driver=False, logging_level="error", include_dashboard=False)  # or the cluster of RAY_ADDRESS
    renderers = [Renderer.remote() for _ in range(options.renderers)]
    wall = Wall.remote(options.window)
    pictures(wall, renderers, 0.5)
    rate = pictures(wall, renderers, options.seconds)
    print(f"{len(renderers)} renderers: {rate:.1f} pictures a second")
    ray.kill(renderers[0])
    try:
        pictures(wall, renderers, options.seconds)
    except ray.exceptions.RayError:
        print("a renderer was killed, and another takes its place")
        renderers[0] = Renderer.remote()
    pictures(wall, renderers, options.seconds)
    print("the wall after that:", ray.get(wall.middles.remote()))
    ray.shutdown()


if __name__ == "__main__":
    main()
