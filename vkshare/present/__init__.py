"""Swapchains, and the windows and headless targets that they show frames on."""
