"""Throws generated inputs at the command line: ``python -m tests.fuzz --minutes N``."""
