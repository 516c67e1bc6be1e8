"""Jobs to plan, small in what may be chosen, and every setting of theirs priced as advice prices one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

from tuner import rules
from tuner.advise.reading import Reading
from tuner.advise.refusals import started
from tuner.advise.usual_host import may_lack_host
from tuner.consultation.consult import job_of
from tuner.consultation.premises import Premises
from tuner.plan.legality import Legality
from tuner.plan.search import SearchResult, SettingSearch
from tuner.plan.space import Choice, RealAxis, Space, same_training, space_of
from tuner.rules.case import Case
from tuner.rules.rollout_engine import starts

HEADROOM = 0.1
ACTOR, ROLLOUT, REF = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.ref"
COMMON = (
    "algorithm.adv_estimator=grpo",
    "data.train_batch_size=128",
    "data.max_prompt_length=1024",
    "data.max_response_length=3072",
    f"{ACTOR}.ppo_mini_batch_size=64",
    f"{ROLLOUT}.name=vllm",
    f"{ROLLOUT}.n=4",
    "actor_rollout_ref.model.use_remove_padding=True",
    f"{ACTOR}.use_dynamic_bsz=True",
    f"{ACTOR}.use_kl_loss=True",
    f"{ROLLOUT}.log_prob_use_dynamic_bsz=True",
    f"{REF}.log_prob_use_dynamic_bsz=True",
)
#: A small job as it is typed, for the command.
TYPED = (
    "algorithm.adv_estimator=grpo",
    "data.train_batch_size=128",
    "data.max_prompt_length=512",
    "data.max_response_length=1536",
    f"{ACTOR}.ppo_mini_batch_size=64",
    f"{ACTOR}.use_dynamic_bsz=True",
    f"{ACTOR}.ppo_max_token_len_per_gpu=4096",
    "actor_rollout_ref.model.use_remove_padding=True",
    f"{ROLLOUT}.name=vllm",
    f"{ROLLOUT}.n=4",
    f"{ROLLOUT}.log_prob_use_dynamic_bsz=True",
)
MEGATRON = (
    "actor_rollout_ref.actor.strategy=megatron",
    "model_engine=megatron",
)


@dataclass(frozen=True, kw_only=True)
class SmallJob:
    """A job, and how many options of which axes are looked at."""

    name: str
    model: str
    overrides: tuple[str, ...] = ()
    gpu: str = "8xh100-sxm"
    nodes: int = 1
    options: tuple[tuple[str, int], ...]


JOBS = (
    SmallJob(
        name="fsdp",
        model="qwen2.5-7b",
        overrides=("data.max_response_length=15360",),
        options=(("layout", 6), ("engine-layout", 3), ("states", 4), ("batch-of-update_actor", 5)),
    ),
    SmallJob(
        name="fsdp-moe",
        model="qwen3-30b-a3b",
        gpu="8xh200-sxm",
        options=(
            *(("layout", 4), ("strategy", 2), ("states", 3), ("fraction", 3), ("engine-layout", 2)),
            *(("sleep", 2), ("bucket", 2)),
        ),
    ),
    SmallJob(
        name="megatron",
        model="qwen2.5-7b",
        overrides=(*MEGATRON, f"{ACTOR}.megatron.tensor_model_parallel_size=2"),
        options=(("layout", 10), ("states", 3), ("recomputation", 6), ("batch-of-update_actor", 3)),
    ),
    SmallJob(
        name="megatron-moe",
        model="qwen3-30b-a3b",
        gpu="8xh200-sxm",
        nodes=2,
        overrides=(*MEGATRON, f"{ACTOR}.megatron.expert_model_parallel_size=8"),
        options=(("layout", 12), ("states", 6), ("engine-layout", 3), ("fraction", 2)),
    ),
    SmallJob(
        name="static-micro-batches",
        model="qwen2.5-7b",
        overrides=(
            f"{ACTOR}.use_dynamic_bsz=False",
            f"{ACTOR}.ppo_micro_batch_size_per_gpu=2",
            "actor_rollout_ref.model.use_remove_padding=False",
        ),
        options=(("layout", 6), ("packing", 2), ("batch-of-update_actor", 6), ("recomputation", 3)),
    ),
)

#: Micro-batches by their number of sequences, of which the trainer refuses some on some layouts.
STATIC = (f"{ACTOR}.use_dynamic_bsz=False", f"{ACTOR}.ppo_micro_batch_size_per_gpu=2")
#: A thousand settings of each backend, dense and sparse, all of which can be priced one by one.
THOUSANDS = (
    SmallJob(
        name="fsdp",
        model="qwen2.5-7b",
        overrides=("data.max_response_length=15360",),
        options=(
            *(("layout", 3), ("strategy", 2), ("states", 5), ("head", 4), ("fraction", 3)),
            ("batch-of-update_actor", 3),
        ),
    ),
    SmallJob(
        name="fsdp-moe",
        model="qwen3-30b-a3b",
        gpu="8xh200-sxm",
        overrides=STATIC,
        options=(
            *(("layout", 4), ("strategy", 2), ("states", 3), ("fraction", 3), ("sleep", 2)),
            ("batch-of-update_actor", 8),
        ),
    ),
    SmallJob(
        name="megatron",
        model="qwen2.5-7b",
        overrides=(*MEGATRON, *STATIC, f"{ACTOR}.megatron.tensor_model_parallel_size=2"),
        options=(("layout", 10), ("states", 3), ("recomputation", 5), ("batch-of-update_actor", 8)),
    ),
    SmallJob(
        name="megatron-moe",
        model="qwen3-30b-a3b",
        gpu="8xh200-sxm",
        nodes=2,
        overrides=(*MEGATRON, *STATIC, f"{ACTOR}.megatron.expert_model_parallel_size=8"),
        options=(("layout", 12), ("engine-layout", 3), ("states", 4), ("batch-of-update_actor", 8)),
    ),
)


def _premises(job: SmallJob) -> Premises:
    return Premises(model=job.model, gpu=job.gpu, nodes=job.nodes, verl_version="0.9.1")


@cache
def reading_of(job: SmallJob) -> Reading:
    words = (*COMMON, *job.overrides)
    read, _ = job_of("/dev/null", words, _premises(job))
    start = started(read.reading, headroom=HEADROOM, allow=())
    assert start.starts
    return start.reading


@cache
def space(job: SmallJob) -> Space:
    """The space of a job with so many options of these axes, spread over all that there are."""
    whole = space_of(reading_of(job))
    return Space(base=whole.base, axes=tuple(_thinned(whole, job)))


def _thinned(whole: Space, job: SmallJob) -> Iterator[RealAxis]:
    wanted = dict(job.options)
    for axis in whole.axes:
        if axis.name in wanted:
            rest = axis.options[1:]
            step = max(1, len(rest) // (wanted[axis.name] - 1))
            options = (axis.options[0], *rest[::step][: wanted[axis.name] - 1])
            yield RealAxis(name=axis.name, options=options, layout=axis.layout)


@cache
def search(
    job: SmallJob, *, most: int = 5, watch: Callable[..., None] | None = None
) -> tuple[SearchResult, Legality]:
    """A search of a small space and what it learned of refusals, once for all laws of a job."""
    legality = Legality(reading_of(job), space(job))
    seeker = SettingSearch(space(job), legality, headroom=HEADROOM, most=most, watch=watch)
    return seeker.run(), legality


@dataclass(frozen=True, kw_only=True)
class Priced:
    """A legal setting that fits for certain, as advice judges it."""

    choice: Choice
    seconds: float
    peak_bytes: int


@cache
def legal_choices(job: SmallJob) -> tuple[Choice, ...]:
    """Every choice that the trainer reads back as a job that nothing refuses and that learns the same."""
    ranges = (range(len(axis.options)) for axis in space(job).axes)
    return tuple(choice for choice in product(*ranges) if _read(job, choice) is not None)


@cache
def _read(job: SmallJob, choice: Choice) -> Case | None:
    reading = reading_of(job)
    try:
        written = reading.write(space(job).workload(choice))
        after = reading.adding(written.overrides) if written.overrides else reading
    except ValueError:
        return None
    before = {(one.rule.code, one.keys) for one in reading.findings if one.severity.value == "error"}
    for one in after.findings:
        if one.refuses or (one.severity.value == "error" and (one.rule.code, one.keys) not in before):
            return None
    case = Case.of(after.workload, headroom=HEADROOM)
    if rules.refusals(case) or not same_training(reading.workload, after.workload):
        return None
    return case


@cache
def priced(job: SmallJob) -> tuple[Priced, ...]:
    """Every setting that is legal and fits for certain."""
    settings = []
    for choice in legal_choices(job):
        case = _read(job, choice)
        if case is None or case.short() is not None or not case.estimate.fits_for_certain():
            continue
        if starts(case.workload) and not may_lack_host(case.estimate, case.workload.cluster.gpus_per_node):
            peak = case.estimate.worst.peak_bytes
            settings.append(Priced(choice=choice, seconds=case.time.seconds, peak_bytes=peak))
    return tuple(settings)
