"""Passes of an engine that divides its model with Megatron-Core."""
