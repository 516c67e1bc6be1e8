"""Checks of what a launch gives the job beside its settings."""
