"""Implementations of the output head on the device, their errors, bytes and times."""
