"""The engines demo: stock engines from PyPI, each in a process of its own, and a wall of their pictures."""
