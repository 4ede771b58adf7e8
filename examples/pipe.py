"""One process sends frames, another looks at them: a pipe."""

import multiprocessing

import vkshare as vks


def viewer(descriptor, adapter):
    with vks.open(adapter, name="viewer") as device, vks.open_receiver(device, descriptor) as receiver:
        for surface, metadata in receiver:  # until the sender closes; each goes back when the next one is asked for
            print(metadata.decode(), surface.read()[0, 0])


def main():
    with vks.open(name="renderer") as device:
        sender, descriptor = vks.pipe(device, 640, 360, metadata_size=16)
        arguments = descriptor, device.adapter.uuid
        other = multiprocessing.get_context("spawn").Process(target=viewer, args=arguments)
        other.start()
        for number in range(5):
            with sender.frame(b"frame %d" % number) as frame:  # waits for a free surface
                device.submit(device.record().clear(frame.surface, (number / 5, 0, 0, 1)))
        sender.close()
        other.join()


if __name__ == "__main__":
    main()
