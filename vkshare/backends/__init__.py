"""What can be below a Device: `base` is the interface, `cpu` and `vulkan` keep it."""
