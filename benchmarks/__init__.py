"""``python -m benchmarks``: the cost of vkshare, beside plain C that does the same work, and beside common ways.

Contenders take turns in one run (measure.py), so that a machine that is busy, or changes its clock,
is the same for all of them. The C is compiled on the spot (compiler.py, c/). A question is a module
with ``run(plan)``, which adds rows (plan.py).
"""

from __future__ import annotations

QUESTIONS = (
    *("submit", "host-ops", "mutex", "handoff", "frames", "queue", "dlpack", "gl", "cuda", "raster"),
    *("swapchain", "resize", "server", "vsync", "compositor", "goldens", "engines", "view", "remote", "video"),
    "mirror",
    "ray",
)
