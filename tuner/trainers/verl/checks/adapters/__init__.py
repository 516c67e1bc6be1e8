"""Checks of LoRA's settings."""
