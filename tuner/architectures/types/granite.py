"""Granite, whose config.json is not read."""

from tuner.architectures.architecture import Architecture

ARCHITECTURE = Architecture(read=None, transforms_logits=True)
