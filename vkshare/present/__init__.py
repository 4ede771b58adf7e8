"""Windows, headless targets and the swapchains that show pictures on them."""
