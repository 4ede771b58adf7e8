"""Descriptors, and the sockets that carry them and their file descriptors from process to process."""
