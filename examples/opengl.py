"""Vulkan and OpenGL draw on one surface in turn: nothing is copied in between."""

import moderngl

import vkshare as vks

TRIANGLE = [  # x, y (down), red, green, blue, alpha
    (0.0, -0.8, 1, 0, 0, 1),
    (0.8, 0.8, 0, 1, 0, 1),
    (-0.8, 0.8, 0, 0, 1, 1),
]


def main():
    with vks.open(name="opengl") as device, device.create_surface(640, 360) as surface:
        try:
            context = vks.interop.gl.egl_context(device)  # or the context of a window: see docs/opengl.md
        except vks.UnsupportedError as error:
            print("no OpenGL here:", error.why)
            return
        with context, vks.interop.gl.open(surface) as shared:
            gl = moderngl.get_context()
            with surface.access(acquire=0, release=1) as view:
                device.submit(device.record().clear(view, (0, 0, 0.2, 1)).draw_triangles(view, TRIANGLE))
            with shared.access(acquire=1, release=2) as view:  # after the triangle
                picture = gl.detect_framebuffer(view.framebuffer)
                picture.clear(1, 1, 0, 1, viewport=(20, 20, 100, 60))  # x, y from the top, width, height
            with surface.access(acquire=2, release=0):  # after the rectangle
                pixels = surface.read()
                print("the triangle's middle is", pixels[200, 320, :3], "and the rectangle", pixels[50, 70, :3])


if __name__ == "__main__":
    main()
