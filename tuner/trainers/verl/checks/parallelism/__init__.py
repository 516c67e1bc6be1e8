"""Checks of parallel sizes: what divides GPUs, heads, layers and experts."""
