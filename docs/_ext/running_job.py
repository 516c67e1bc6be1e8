"""The job that the guide returns to, and what is computed of it while a page is built.

One of verl's own examples on a node of H100. Any overrides may be added; what they make of the job is
computed once for each set of them.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from kept_answers import cached_answer
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises
from tuner.consultation.result import Consultation
from tuner.memory import PhaseEstimate, RolloutMemory
from tuner.timing import StepTime
from tuner.workload import Phase, Workload

ROOT = Path(__file__).resolve().parents[2]
FILE = "docs/examples/qwen2.5-7b-grpo.yaml"
OVERRIDES = ("trainer.n_gpus_per_node=8",)
GPU, RELEASE = "h100-sxm", "0.9.1"
COMMAND = f"tuner advise {FILE} {' '.join(OVERRIDES)} --gpu {GPU} --verl-version {RELEASE}"
#: In the place of overrides: everything that the advice gives to paste.
ADVISED = "advised"
PACKED = "actor_rollout_ref.model.use_remove_padding=True"
#: In the place of a value: the token budget beyond which the packed job's step gets no shorter.
KNEE = "=knee"


class DoesNotStartError(ValueError):
    """Overrides with which the job does not start, so that what is computed would be another job's."""


@cached_answer(words=False)
def answer(*overrides: str) -> Consultation:
    """The advice for the job with overrides behind its own; ``advised`` stands for the block of the job.

    Raises:
        DoesNotStartError: the release refuses the job; what is answered is the least change that starts.
    """
    wanted: list[str] = []
    for override in overrides:
        wanted += block() if override == ADVISED else (_with_budget(override),)
    premises = Premises(gpu=GPU, verl_version=RELEASE)
    # A block is asked of the job as it is alone: to choose one takes as long as everything else.
    answered = consult(str(ROOT / FILE), [*OVERRIDES, *wanted], premises, block=not overrides)
    if answered.advice.refusals or answered.advice.estimate.problems:
        raise DoesNotStartError(
            f"{' '.join(overrides)}: the job does not start, so its price is another job's"
        )
    return replace(answered, reading=None)  # asked again by no page, and nothing that can be kept


def _with_budget(override: str) -> str:
    """An override with the budget at the knee for the word."""
    if not override.endswith(KNEE):
        return override
    from token_budgets import knee  # which asks for the job itself

    return f"{override.removesuffix(KNEE)}={knee(workload([PACKED]))}"


def block() -> tuple[str, ...]:
    """The overrides that the advice for the job gives to paste."""
    combination = answer().advice.combination
    if combination is None:
        raise ValueError("the job of the guide gets no block to paste")
    return combination.overrides


def workload(overrides: Sequence[str] = ()) -> Workload:
    """The job as the model has it."""
    return answer(*overrides).advice.workload


def phase(name: str, overrides: Sequence[str] = ()) -> PhaseEstimate:
    """One phase of the job by its name; ``worst`` is the one with the highest peak."""
    estimate = answer(*overrides).advice.estimate
    found = estimate.worst if name == "worst" else estimate.phase(Phase(name))
    if found is None:
        raise ValueError(f"the job has no phase {name}")
    return found


def time(overrides: Sequence[str] = ()) -> StepTime:
    """The modelled seconds of its step."""
    return answer(*overrides).advice.time


def rollout(overrides: Sequence[str] = ()) -> RolloutMemory:
    """The memory of its rollout engine."""
    memory = answer(*overrides).advice.rollout
    if memory is None:
        raise ValueError("the job generates nothing")
    return memory
