"""Checks of the output head, its entropy and its fused ways."""
