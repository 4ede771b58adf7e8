"""Windows and their events, over GLFW and X11."""
