"""MiniMax-Text-01 and M1, whose lightning attention keeps states in a cache of its own; not modelled."""

from tuner.architectures.architecture import Architecture

ARCHITECTURE = Architecture(read=None, traceable=False)
