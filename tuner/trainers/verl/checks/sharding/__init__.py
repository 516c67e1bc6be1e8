"""Checks of how FSDP shards, gathers and offloads."""
