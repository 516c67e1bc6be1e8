"""Seconds of collectives between the GPUs of one machine, by their bytes."""
