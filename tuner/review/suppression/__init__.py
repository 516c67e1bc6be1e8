"""Findings that a file itself says to ignore: comments in YAML and in scripts, and their use."""
