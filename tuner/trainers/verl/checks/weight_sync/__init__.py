"""Checks of how the rollout is given new weights."""
