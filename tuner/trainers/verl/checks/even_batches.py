"""Sizes of a step that its ranks can share: what several checks propose has to go together."""

from math import gcd

from tuner.batching import divisors
from tuner.inputs.settings import Settings
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.settings import ACTOR, shards_with_fsdp, static_batches
from tuner.trainers.verl.fields.batching import trains_on_generated
from tuner.trainers.verl.source import source_of
from tuner.workload import Workload

MICRO_BATCH = f"{ACTOR}.ppo_micro_batch_size_per_gpu"

_ASKS_DYNAMIC_TOO = Releases(until="0.6.0")
_BALANCES_OVER_GPUS = Releases(until="0.7.0")
_PADS = Releases(since="0.9.0")


def as_asserted(settings: Settings, workload: Workload, version: str) -> Workload:
    """The job with the prompts that verl's assertions count: those of the training batch, whatever is generated.

    Source: verl 0.4.0 to 0.9.1 ``trainer/ppo/ray_trainer.py``, ``utils/config.py`` (``validate_config``).
    """
    if not trains_on_generated(source_of(settings, version)):
        return workload
    prompts = settings.integer("data.train_batch_size", minimum=1)
    return workload if prompts is None else workload.with_batch(prompts=prompts)


def step_divisor(settings: Settings, workload: Workload, version: str) -> int | None:
    """What the sequences of a step must divide by, None where this release does not ask."""
    ranks, gpus = workload.actor.engine.parallel.data, workload.cluster.gpus
    if static_batches(settings) or version in _ASKS_DYNAMIC_TOO:
        if shards_with_fsdp(workload):
            return gpus
        return ranks * (settings.integer(MICRO_BATCH, minimum=1) or 1)
    if version in _PADS and settings.flag("trainer.use_v1", default=True):
        return None
    if not settings.flag("trainer.balance_batch", default=True):
        return None
    return gpus if version in _BALANCES_OVER_GPUS else ranks


def even_prompts(settings: Settings, workload: Workload, version: str) -> int:
    """The prompts of a step once its sequences divide: as they are, or the next larger number."""
    batch, divisor = workload.batch, step_divisor(settings, workload, version)
    if divisor is None or batch.sequences % divisor == 0:
        return batch.prompts
    micro = even_micro_batch(settings, workload, version)
    if micro is not None:
        divisor = workload.actor.engine.parallel.data * micro
    step = divisor // gcd(batch.responses_per_prompt, divisor)
    return -(-batch.prompts // step) * step


def even_micro_batch(settings: Settings, workload: Workload, version: str) -> int | None:
    """The micro-batch that divides a rank's mini-batch, where that decides the divisor and is none yet.

    Only Megatron has the step divide by micro-batches.
    """
    by_micro = static_batches(settings) or version in _ASKS_DYNAMIC_TOO
    micro = settings.integer(MICRO_BATCH, minimum=1)
    mini = settings.integer(f"{ACTOR}.ppo_mini_batch_size", minimum=1)
    if not by_micro or shards_with_fsdp(workload) or micro is None or mini is None:
        return None
    share, left = divmod(mini * workload.batch.responses_per_prompt, workload.actor.engine.parallel.data)
    return None if left or share == 0 or share % micro == 0 else largest_divisor(share, micro)


def largest_divisor(number: int, at_most: int) -> int:
    """The largest size up to a limit that divides a number."""
    return max((size for size in divisors(number) if size <= at_most), default=1)
