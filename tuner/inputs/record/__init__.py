"""The record that a running job leaves of itself: memory, seconds and tokens of every phase."""
