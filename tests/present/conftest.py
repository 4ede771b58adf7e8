"""Windows, swapchains and what they are made of.

The present history knows no device, so a run on a Vulkan driver must not count its tests.
"""

from __future__ import annotations

import os

if os.environ.get("VKSHARE_TEST_DRIVER", "") not in ("", "cpu"):
    collect_ignore_glob = ["test_history*.py"]
