"""Validation on more than one node, started by torchrun or sent to each through Ray."""
