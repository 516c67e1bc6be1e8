"""Checks of keys that a release does not read, or knows by another name."""
