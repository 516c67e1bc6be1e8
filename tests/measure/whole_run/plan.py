"""What is run: a model by its sizes, the settings that a person would have typed, lengths, and steps."""

from pathlib import Path

import msgspec
from measure.whole_run.lengths import Lengths, mean
from msgspec import Struct
from msgspec.structs import replace

from tuner.models import FoundConfig, find_config
from tuner.models.shape import cut_config

PLANS = Path(__file__).parent / "plans"


class Prompts(Struct, frozen=True, kw_only=True):
    """Words of a prompt, drawn evenly between two bounds."""

    count: int
    least: int
    most: int
    seed: int = 7


class Plan(Struct, frozen=True, kw_only=True):
    """One run."""

    name: str
    what: str  # one sentence
    model: str  # a bundled model
    layers: int | None = None  # its first ones alone; None: all
    card: str  # profile of the card that it is meant for
    gpus: int
    steps: int
    prompts: Prompts
    lengths: Lengths
    settings: tuple[str, ...]  # overrides, without those that :mod:`launch` adds
    pasted: tuple[str, ...] = ()  # the block that `tuner advise` proposed for these settings, behind them

    @property
    def config(self) -> FoundConfig:
        """The configuration of the model; the name of one that is cut says so."""
        whole = find_config(self.model)
        if self.layers is None:
            return whole
        name = f"{whole.name}-{self.layers}-layers"
        return replace(whole, values=cut_config(whole.values, self.layers), name=name)

    @property
    def job(self) -> tuple[str, ...]:
        """All settings of the job, in the order in which they are typed."""
        return (*self.settings, *self.pasted)

    def setting(self, key: str) -> str:
        """The value of a setting that the plan has; the last one counts.

        Raises:
            ValueError: it has none.
        """
        found = [value for name, _equals, value in (one.partition("=") for one in self.job) if name == key]
        if not found:
            raise ValueError(f"{self.name}: {key} is not set")
        return found[-1]

    @property
    def responses(self) -> int:
        """Responses to one prompt."""
        return int(self.setting("actor_rollout_ref.rollout.n"))

    @property
    def mean_response_tokens(self) -> float:
        """Over all steps."""
        prompts = range(self.steps * int(self.setting("data.train_batch_size")))
        return mean(self.lengths, prompts, self.responses)


def read_plan(name: str) -> Plan:
    """A plan of this folder by its name, or a file.

    Raises:
        ValueError: it is none, or its lengths are not those of its settings.
    """
    file = Path(name) if name.endswith(".json") else PLANS / f"{name}.json"
    plan = msgspec.json.decode(file.read_bytes(), type=Plan)
    most = int(plan.setting("data.max_response_length"))
    if plan.lengths.most != most:
        raise ValueError(f"{plan.name}: lengths end at {plan.lengths.most}, responses at {most}")
    if plan.prompts.count < plan.steps * int(plan.setting("data.train_batch_size")):
        raise ValueError(f"{plan.name}: {plan.prompts.count} prompts are too few for {plan.steps} steps")
    return plan
