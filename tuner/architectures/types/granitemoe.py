"""Granite with experts, whose config.json is not read."""

from tuner.architectures.architecture import Architecture

ARCHITECTURE = Architecture(read=None, transforms_logits=True, vllm_second_runner_since="0.24.0")
