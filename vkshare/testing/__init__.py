"""Help for tests, ours and other people's: pictures compared, devices as fixtures, validation messages as failures.

Importing this loads no native code and no NumPy. The pytest plugin (`vkshare.testing.plugin`) comes
with the package.
"""

from __future__ import annotations

from vkshare.testing.pictures import assert_images_close, assert_images_equal

__all__ = ["assert_images_close", "assert_images_equal"]
