"""Contents of the sysroot: the files of Debian 12 packages that make each part. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

MACHINE = "x86_64"
DRIVERS = ("lavapipe25", "lavapipe22", "swiftshader")
OPENGL = {"lavapipe22": "opengl22"}  # the OpenGL that a driver's environment shows; the others' is opengl25


@dataclass(frozen=True)
class Package:
    """One Debian package and the members of it that we unpack (fnmatch patterns on the path inside the package)."""

    name: str
    members: tuple[str, ...]
    suite: str = ""  # empty: the newest of main and security, as apt chooses


def _libraries(*names: str) -> tuple[Package, ...]:
    return tuple(Package(name, ("*/lib/*.so*",)) for name in names)


_LAVAPIPE = ("*/libvulkan_lvp.so", "*/lvp_icd*.json")


def _opengl(suite: str, *driver: Package) -> tuple[Package, ...]:
    """Mesa's OpenGL of that suite: what the vendor-neutral libEGL and libGLX of the system load, and llvmpipe."""
    return (
        Package("libegl-mesa0", ("*/libEGL_mesa.so*", "*/50_mesa.json"), suite),
        Package("libglx-mesa0", ("*/libGLX_mesa.so*",), suite),
        Package("libgbm1", ("*/libgbm.so*",), suite),
        *driver,
    )


PARTS: dict[str, tuple[Package, ...]] = {
    "lavapipe25": (Package("mesa-vulkan-drivers", _LAVAPIPE, suite="bookworm-backports"),),
    "lavapipe22": (Package("mesa-vulkan-drivers", _LAVAPIPE, suite="bookworm"),),
    # llvmpipe opens lavapipe's memory where both are of one Mesa: each goes with the lavapipe of
    # its number.
    "opengl25": _opengl(
        "bookworm-backports", Package("mesa-libgallium", ("*/libgallium-*.so",), suite="bookworm-backports")
    ),
    "opengl22": _opengl(
        "bookworm",
        Package("libglapi-mesa", ("*/libglapi.so*",), suite="bookworm"),
        # Every driver of the package is a hard link to the first.
        Package("libgl1-mesa-dri", ("*/dri/crocus_dri.so", "*/dri/*swrast_dri.so"), suite="bookworm"),
    ),
    "swiftshader": (Package("chromium-common", ("*/libvk_swiftshader.so", "*/vk_swiftshader_icd.json")),),
    "validation": (Package("vulkan-validationlayers", ("*/libVkLayer_*.so", "*/VkLayer_*.json")),),
    "tools": (
        Package("glslang-tools", ("*/bin/glslangValidator",)),
        Package("spirv-tools", ("*/bin/spirv-as", "*/bin/spirv-dis", "*/bin/spirv-opt", "*/bin/spirv-val")),
        Package("spin", ("*/bin/spin",)),
        Package("abigail-tools", ("*/bin/abidw", "*/bin/abidiff")),
    ),
    "loader": _libraries("libvulkan1"),
    # Dependencies of the drivers, down to but without libc. Only libraries that the system lacks go
    # on LD_LIBRARY_PATH.
    "libraries": _libraries(
        "libllvm15", "libz3-4", "libedit2", "libtinfo6", "libffi8", "libxml2", "libicu72", "liblzma5", "libbsd0",
        "libmd0", "libabigail0", "libdw1",
        "libelf1", "libexpat1", "libzstd1", "zlib1g", "libdrm2", "libstdc++6", "libgcc-s1",
        "libwayland-client0", "libx11-6", "libx11-xcb1", "libxau6", "libxdmcp6", "libxshmfence1",
        "libegl1", "libgl1", "libglx0", "libopengl0", "libglvnd0", "libsensors5", "libpciaccess0", "libwayland-server0",
        "libdrm-amdgpu1", "libdrm-intel1", "libdrm-nouveau2", "libdrm-radeon1",
        "libxext6", "libxfixes3", "libxxf86vm1", "libxcb-dri2-0", "libxcb-glx0",
        "libxcb1", "libxcb-dri3-0", "libxcb-present0", "libxcb-randr0", "libxcb-shm0", "libxcb-sync1", "libxcb-xfixes0",
    ),
}  # fmt: skip

# Unpacked on request alone (60 MB): `make test-full` runs programs of another architecture with it.
EMULATOR: dict[str, tuple[Package, ...]] = {"emulator": (Package("qemu-user-static", ("*/bin/qemu-aarch64-static",)),)}
