"""Devices and their objects: adapters, surfaces, fences, commands, queues."""
