"""Checks of the decoder layers' implementation."""
