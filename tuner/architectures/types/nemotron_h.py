"""Nemotron-H and Nemotron 3, whose layers are a Mamba-2 mixer, attention or an MLP alone; not modelled."""

from tuner.architectures.architecture import Architecture

ARCHITECTURE = Architecture(read=None, traceable=False)
