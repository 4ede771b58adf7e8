"""A surface in CUDA: its own memory as an array of PyTorch, CuPy, JAX or Numba, or as a cudaArray.

    with vks.interop.cuda.open(surface) as shared:
        with shared.access(acquire=1, release=0, stream=torch.cuda.current_stream()) as view:
            torch.from_dlpack(view).mul_(2)             # or cupy.from_dlpack(view), view.pointer, view.array ...

Nothing is copied, and the CPU does not wait: the stream waits for the surface's own timeline
semaphore and signals it. ``open_fence(fence)`` gives streams a fence to wait for and to signal,
whatever it stands for. Needs cuda-bindings (``vkshare[cuda]``), and a GPU of NVIDIA's.
"""

from __future__ import annotations

from vkshare.interop.cuda.driver import CUDAError
from vkshare.interop.cuda.fence import CUDAFence, CUDAFenceStatistics, open_fence
from vkshare.interop.cuda.sharing import share
from vkshare.interop.cuda.surface import CUDAStatistics, CUDASurface, open
from vkshare.interop.cuda.view import CUDAPlaneView, CUDAView

__all__ = [
    "CUDAError",
    "CUDAFence",
    "CUDAFenceStatistics",
    "CUDAPlaneView",
    "CUDAStatistics",
    "CUDASurface",
    "CUDAView",
    "open",
    "open_fence",
    "share",
]
