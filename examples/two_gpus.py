"""A picture of which two GPUs draw a half each: the first one composes it, from a mirror of the other's half."""

import time

import vkshare as vks

WIDTH, HEIGHT, FRAMES = 1920, 1080, 60
HALF = WIDTH // 2


def scene(device, target, frame, first):
    """Records stripes that move; `first` is the left edge of the target in the whole picture."""
    commands = device.record().clear(target, (0, 0, 0.2, 1))
    for stripe in range(0, WIDTH, 120):
        x = (stripe + frame * 4) % WIDTH - first
        if -60 < x < HALF:  # of one at the seam, each half has a part
            commands.fill_rect(target, (x, 0, 60, HEIGHT), (1, stripe / WIDTH, 0, 1))
    return commands


def main():
    adapters = vks.adapters()  # GPUs first, the CPU backend last
    if len(adapters) < 2:
        print(f"only one adapter is here: {adapters[0].name}")
        return
    with vks.open(adapters[0]) as near, vks.open(adapters[1]) as far:
        whole, left = near.create_surface(WIDTH, HEIGHT), near.create_surface(HALF, HEIGHT)
        right = far.create_surface(HALF, HEIGHT)
        mirror = near.mirror(right)  # of which an acquire copies what `far` has drawn
        begun = time.perf_counter()
        for frame in range(FRAMES):
            with right.access() as view:
                far.submit(scene(far, view, frame, HALF))
            with left.access() as view:
                near.submit(scene(near, view, frame, 0))
            with whole.access() as target, left.access() as view, mirror.access(damage=()) as other:
                near.submit(near.record().copy(view, target).copy(other, target, at=(HALF, 0)))
        near.wait_idle()
        lasted = (time.perf_counter() - begun) / FRAMES
        copied = getattr(mirror.statistics(), "pulled_bytes", 0)  # 0: the first opens the memory of the second
        print(f"{near.adapter.name!r} draws the left half, {far.adapter.name!r} the right one")
        print(f"{lasted * 1e3:.1f} ms a frame, {copied:,} bytes copied")
        for each in (mirror, right, left, whole):
            each.close()


if __name__ == "__main__":
    main()
