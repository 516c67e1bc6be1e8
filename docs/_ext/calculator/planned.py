"""Jobs that ``tuner plan`` was asked about, one by one, and what it answered for every number of GPUs.

A search takes seconds, so neither a page nor its build makes one: the answers lie in a file beside the page's
other data. ``python -m docs.tools.plan_points`` writes it anew, and a test plans some of its jobs again.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from calculator.form import COMMON, MODEL_KEY, RELEASE
from tuner import api
from tuner.consultation.premises import Premises
from tuner.plan.answer import ClusterPlan
from tuner.plan.judge import Judge
from tuner.render.plan_report import CapacityReport
from tuner.rules.case import CaseFigures

FILE = Path(__file__).resolve().parents[2] / "data" / "planned-jobs.jsonl"
MODELS = ("Qwen2.5-1.5B-Instruct", "Qwen2.5-7B-Instruct", "Qwen2.5-32B-Instruct", "Llama-3.3-70B-Instruct")
CARDS = ("h100-sxm", "h200-sxm", "h20-sxm", "a100-sxm-80g")
PROMPTS = (256, 1024)
RESPONSES = (2048, 8192)  # tokens of the longest response
PROMPT = 1024  # tokens of the longest prompt
PER_PROMPT = 8
MINI_BATCHES = 4
PER_NODE = 8
NODES = (1, 2, 4, 8)
UNREAD = "unread"  # the job cannot be read for so few GPUs
_DIGITS = (
    10  # of a number in the file: more than anything shows, fewer than another machine may have otherwise
)


class PlannedJob(Struct, frozen=True, kw_only=True):
    """What is asked: one job and one card."""

    model: str
    card: str
    prompts: int
    response: int


class PlannedNumber(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one number of GPUs comes to: the best setting there, or what is missing."""

    gpus: int
    nodes: int
    seconds: float = 0.0
    ends: tuple[float, float] = (0.0, 0.0)
    gpu_hours: float = 0.0
    efficiency: float = 0.0
    fullest: str = (
        ""  # the phase that leaves least of the card; of one where nothing fits, the one that lacks
    )
    spare_bytes: int = 0  # that it leaves, or lacks
    longest: str = ""  # the phase that most of the step goes into
    share: float = 0.0  # of the step
    problem: str = ""  # what is missing where no phase lacks anything, by its name


class PlannedAnswer(PlannedJob, frozen=True, kw_only=True):
    """A job with its answer, as a line of the file."""

    numbers: tuple[PlannedNumber, ...]


def jobs() -> Iterator[PlannedJob]:
    """All that is asked."""
    for prompts, card, response, model in product(PROMPTS, CARDS, RESPONSES, MODELS):
        yield PlannedJob(model=model, card=card, prompts=prompts, response=response)


def overrides(model: str, prompts: int, response: int) -> list[str]:
    """The job as ``tuner plan`` is given it."""
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    return [
        f"{MODEL_KEY}={model}",
        *COMMON,
        f"{actor}.strategy=fsdp2",
        f"data.train_batch_size={prompts}",
        f"{actor}.ppo_mini_batch_size={prompts // MINI_BATCHES}",
        f"{rollout}.n={PER_PROMPT}",
        f"data.max_prompt_length={PROMPT}",
        f"data.max_response_length={response}",
        f"trainer.n_gpus_per_node={PER_NODE}",
    ]


def planned(job: PlannedJob) -> PlannedAnswer:
    """Plan a job."""
    words = overrides(job.model, job.prompts, job.response)
    report = api.plan("/dev/null", *words, gpu=job.card, nodes=NODES, verl_version=RELEASE)
    return PlannedAnswer(**msgspec.structs.asdict(job), numbers=tuple(map(_number, report.capacity)))


def _number(row: CapacityReport) -> PlannedNumber:
    plan = row.plan
    gpus, nodes = plan.cluster.gpus, plan.cluster.nodes
    if plan.settings:
        best = plan.settings[0]
        tightest = min(best.phases, key=lambda one: one.spare_bytes)
        most = max(best.time.deciding_phases, key=lambda one: one.seconds)
        return PlannedNumber(
            gpus=gpus,
            nodes=nodes,
            seconds=_rounded(best.seconds),
            ends=(_rounded(best.step.low_s), _rounded(best.step.high_s)),
            gpu_hours=_rounded(best.gpu_hours),
            efficiency=_rounded(row.efficiency or 0.0),
            fullest=tightest.phase.value,
            spare_bytes=tightest.spare_bytes,
            longest=most.phase.value,
            share=_rounded(most.seconds / best.seconds),
        )
    return PlannedNumber(gpus=gpus, nodes=nodes, **_lacking(plan))


def _lacking(plan: ClusterPlan) -> dict[str, Any]:
    """The constraint that fails the setting which comes nearest, and the bytes that a phase lacks."""
    lacking = plan.lacking
    if lacking is None:
        return {"problem": UNREAD}
    if lacking.phase is not None:
        return {"fullest": lacking.phase.value, "spare_bytes": lacking.missing_bytes}
    figures = CaseFigures(lacking.workload)
    return {"problem": Judge(Premises().headroom).failing(lacking.workload, figures) or ""}


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")


def read(path: Path = FILE) -> list[PlannedAnswer]:
    """The answers of a file."""
    if not path.is_file():
        return []
    return [msgspec.json.decode(line, type=PlannedAnswer) for line in path.read_bytes().splitlines()]


def write(answers: list[PlannedAnswer], path: Path = FILE) -> None:
    """Keep answers, in the order of the jobs."""
    places = {job: place for place, job in enumerate(jobs())}
    kept = [answer for answer in answers if job_of(answer) in places]
    kept.sort(key=lambda answer: places[job_of(answer)])
    path.write_bytes(b"".join(msgspec.json.encode(answer) + b"\n" for answer in kept))


def job_of(answer: PlannedAnswer) -> PlannedJob:
    """What an answer was asked."""
    said = {name: getattr(answer, name) for name in PlannedJob.__struct_fields__}
    return PlannedJob(**said)


@cache
def answers() -> dict[PlannedJob, PlannedAnswer]:
    """The answers that there are, by their jobs."""
    return {job_of(answer): answer for answer in read()}
