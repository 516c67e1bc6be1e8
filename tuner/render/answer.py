"""What one run of the pipeline found out. Every output format is a rendering of an :class:`Answer`."""

from dataclasses import dataclass

from tuner.advise import Advice
from tuner.inputs.settings import Settings
from tuner.trainers.verl.load import UnknownKey


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The advice for one configuration and where its premises came from."""

    source: str  # the configuration file, as given
    settings: Settings
    unknown: tuple[UnknownKey, ...]
    release_reason: str  # why this release's defaults and rules were used
    model_reason: str  # which option or key named the model
    gpu_reason: str  # which option named the card, or how it was found
    gpu_assumed: bool  # True when nothing named the card
    gpus_reason: str  # where the number of GPUs comes from
    resting: tuple[tuple[str, object], ...]  # decisive keys nobody set, with their defaults
    advice: Advice
