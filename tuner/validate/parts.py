"""The parts of a validation by name, for whoever lists them before a report's models are imported."""

from enum import Enum


class ValidationPart(str, Enum):
    """What is run, in this order."""

    MACHINE = "machine"  # rates and what a bare process holds
    OUTPUT_HEAD = "output-head"  # log-probability and entropy, every implementation
    TRAINING_STEP = "training-step"  # passes over the sharded model, with and without the proposals
    ROLLOUT = "rollout"  # the KV cache beside the residents of that phase
    COLLECTIVES = "collectives"  # between two GPUs or more
    SEARCH = "search"  # the largest token budget that really fits
    VERL_UPDATE = "verl-update"  # by verl's own worker, with its head and with what is put inside it
