"""Vulkan draws, PyTorch inverts the picture, Vulkan goes on: one memory, in order on the GPU, nothing copied."""

try:
    import torch
except ModuleNotFoundError:
    raise SystemExit("this example needs PyTorch: pip install torch") from None

import vkshare as vks


def invert(device):
    with (
        device.create_surface(640, 360, tiling="linear", memory="device") as surface,
        vks.interop.cuda.open(surface) as shared,
    ):
        with surface.access(acquire=0, release=1) as view:
            device.submit(device.record().clear(view, (0.2, 0.4, 1, 1)))
        with shared.access(acquire=1, release=2, stream=torch.cuda.current_stream()) as view:
            picture = torch.from_dlpack(view)  # (360, 640, 4) uint8: the surface's own memory
            picture[..., :3] = 255 - picture[..., :3]
        with surface.access(acquire=2, release=0):  # behind PyTorch's work
            print("the middle pixel is", surface.read()[180, 320])


def main():
    with vks.open(name="cuda") as device:
        try:
            invert(device)
        except vks.UnsupportedError as error:
            print("not here:", error)


if __name__ == "__main__":
    main()
