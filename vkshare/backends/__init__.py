"""Backends of a Device: `base` is the interface, `cpu` and `vulkan` implement it."""
