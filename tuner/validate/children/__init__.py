"""Processes of their own that the parent calls functions in, and what is on this machine."""
