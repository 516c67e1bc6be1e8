"""Checks of batch sizes: what divides what, and which of them are read."""
