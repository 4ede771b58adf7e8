"""Recovery after an owner is killed: the next owner gets AbandonedError, recovers the surface and continues."""

import multiprocessing
import os
import signal

import vkshare as vks


def owner(descriptor, adapter):
    device = vks.open(adapter, name="owner")
    surface = device.open_surface(descriptor)
    surface.acquire(0)
    os.kill(os.getpid(), signal.SIGKILL)  # in the middle of a frame


def main():
    with vks.open(name="survivor") as device, device.create_surface(640, 360) as surface:
        arguments = surface.export(), device.adapter.uuid
        process = multiprocessing.get_context("spawn").Process(target=owner, args=arguments)
        process.start()
        process.join()
        try:
            surface.acquire(0)
        except vks.AbandonedError:
            surface.recover()  # owns it; other handles get AbandonedError once, because frames were lost
        device.submit(device.record().clear(surface, (0, 0, 0, 1)))
        surface.release(0)
        print("recovered, generation", surface.generation)


if __name__ == "__main__":
    main()
