"""Activations of one decoder layer, in bytes per token of one GPU."""
