"""Checks of the rollout engine's settings."""
