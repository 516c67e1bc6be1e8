"""Memory fractions and tensor-parallel sizes of the rollout engine."""

from collections.abc import Callable
from math import ceil

from msgspec.structs import replace

from tuner.hardware import Gpu
from tuner.language import _
from tuner.memory.rollout.capacity import built_sequence_bytes
from tuner.model_shape import ModelShape
from tuner.rules.case import LEAST_GAIN, Case, figures
from tuner.serving.graphs import largest_graph
from tuner.timing.decode import RolloutInput
from tuner.timing.generation.rollout import waits_for_host
from tuner.workload import FractionOf, Phase, Rollout, RolloutEngine, Workload

AWAKE = (Phase.ROLLOUT, Phase.WAKE_UP)
HUNDREDTHS = range(5, 96)  # fractions worth proposing; the last twentieth is never free
ALIGNMENT = 8  # sequences; CUDA graphs are captured for multiples of it


def with_fraction(workload: Workload, hundredths: int) -> Workload:
    """The workload with another memory fraction."""
    return workload.with_rollout(memory_fraction=hundredths / 100)


def hundredths(workload: Workload) -> float:
    """The memory fraction in hundredths."""
    return workload.generator.memory_fraction * 100


def starts(workload: Workload) -> bool:
    """Whether the engine finds room for weights and one sequence of full length; there need not be one."""
    return workload.rollout is None or figures(workload).rollout.concurrent_sequences > 0


def least(candidates: range, accept: Callable[[int], bool]) -> int | None:
    """The smallest candidate that is accepted, where all larger ones are too."""
    low, high = 0, len(candidates)
    while low < high:
        middle = (low + high) // 2
        if accept(candidates[middle]):
            high = middle
        else:
            low = middle + 1
    return candidates[low] if low < len(candidates) else None


def least_fraction(workload: Workload) -> Workload | None:
    """The smallest memory fraction with which the engine starts, None where none does.

    vLLM starts with a cache for one sequence of the length that it is built for. Where no fraction leaves so
    much, another change has to shorten that length, and a sequence of the job's own length is enough here.
    """
    fraction = least(HUNDREDTHS, lambda value: _starts_at_length(with_fraction(workload, value)))
    if fraction is None:
        fraction = least(HUNDREDTHS, lambda value: starts(with_fraction(workload, value)))
    return None if fraction is None else with_fraction(workload, fraction)


def _starts_at_length(workload: Workload) -> bool:
    """Whether the engine starts with a cache for a sequence as long as it is built for, if it asks for that."""
    if not starts(workload) or workload.rollout is None:
        return starts(workload)
    if workload.rollout.engine is not RolloutEngine.VLLM:
        return True
    return figures(workload).rollout.kv_bytes >= built_sequence_bytes(workload)


def largest_fraction(case: Case) -> Workload | None:
    """The largest memory fraction with which rollout and wake-up fit and the engine starts."""
    fraction = case.largest(
        HUNDREDTHS,
        lambda value: with_fraction(case.workload, value),
        accept=lambda other: case.eases(other, *AWAKE),
    )
    if fraction is None or not starts(with_fraction(case.workload, fraction)):
        return None
    return with_fraction(case.workload, fraction)


def affordable(case: Case, changed: Workload) -> Workload | None:
    """A faster workload, with a smaller memory fraction where it lacks room else; None where nothing gives it.

    What the engine takes more beside its cache leaves less for the trainer at the sync and at the wake-up;
    the cache makes room. Whether the result still pays is not asked.
    """
    # Whether it fits is told sooner than what it takes, since few rollouts are alike.
    if case.affords(changed):
        return changed
    if not starts(changed) or not case.faster(changed):  # less cache makes it no faster
        return None
    enough = least_fraction(changed)
    if enough is None:
        return None
    fractions = range(round(hundredths(enough)), ceil(hundredths(changed)))
    most = case.largest(fractions, lambda value: with_fraction(changed, value))
    return None if most is None else with_fraction(changed, most)


def sequences_per_replica(workload: Workload) -> int:
    """Sequences that one replica generates at a time."""
    of_round = ceil(workload.batch.round_sequences / workload.generator.replicas)
    handed = workload.generator.sequences_at_once
    return of_round if handed is None else min(of_round, handed)


def step_waits_for_host(workload: Workload) -> bool:
    """Whether more sequences at once would only take the host longer to schedule."""
    running = figures(workload).rollout.concurrent_sequences
    return waits_for_host(RolloutInput.of(workload), concurrent_sequences=running)


def with_matching_limit(workload: Workload) -> Workload:
    """The limit on running sequences raised to what the cache holds at full length, never lowered.

    A limit and a cache that are raised one without the other gain nothing. Nor is it raised beyond the
    largest CUDA graph: the host then launches every kernel of a step, and schedules more sequences beside;
    nor where a step waits for the host already; nor beyond the tokens of one step, of which each running
    sequence takes one: vLLM refuses that.
    """
    rollout = workload.generator
    if not rollout.sequences_adjustable or rollout.chunks_unknown or step_waits_for_host(workload):
        return workload
    most = ALIGNMENT * ceil(sequences_per_replica(workload) / rollout.data_parallel / ALIGNMENT)
    if graph := largest_graph(rollout):
        most = min(most, graph)
    most = min(most, rollout.max_batched_tokens // ALIGNMENT * ALIGNMENT)
    unlimited = figures(workload.with_rollout(max_sequences=most)).rollout
    cached_sequences = unlimited.concurrent_sequences // rollout.data_parallel
    limit = most if cached_sequences >= most else cached_sequences // ALIGNMENT * ALIGNMENT
    return workload if limit <= rollout.max_sequences else workload.with_rollout(max_sequences=limit)


def with_more_cache(case: Case, workload: Workload, *, than: Workload) -> Workload | None:
    """A larger memory fraction that is affordable and faster than another workload, None where none is.

    The smallest one that runs as many sequences as the largest affordable one, with a matching limit.
    """
    candidates = [value for value in HUNDREDTHS if value > hundredths(workload)]

    def raised(value: int) -> Workload:
        return with_matching_limit(with_fraction(workload, value))

    def pays(value: int) -> bool:
        return case.seconds(raised(value)) < case.seconds(than) * (1 - LEAST_GAIN)

    if not _leaves_room(workload.generator):
        return None
    if not candidates or step_waits_for_host(workload) or not pays(candidates[-1]):
        return None
    most = case.largest(candidates, raised)
    if most is None or not pays(most):
        return None
    most_running = _running_sequences(raised(most))
    if most_running <= _running_sequences(workload):
        return None
    enough = least(
        range(candidates[0], most), lambda value: _running_sequences(raised(value)) >= most_running
    )
    return raised(most if enough is None else enough)


def _leaves_room(rollout: Rollout) -> bool:
    """Whether it is known that what the engine takes more is free again while the trainer works."""
    return rollout.sleep_known or not (rollout.colocated and rollout.frees_memory)


def pays_if_shorter(case: Case, proposal: Workload) -> bool:
    """Whether more cache shortens the step with sequences half as long, too, where nobody says how long they are.

    Shorter ones need less of it, and the assumed mean is as often too long as too short.
    """
    batch = case.workload.batch
    if batch.known_mean_tokens is not None:
        return True
    means = {"mean_response": ceil(batch.mean_response_tokens / 2)}
    if batch.lengths.mean_prompt is None:
        means["mean_prompt"] = ceil(batch.mean_prompt_tokens / 2)
    shorter = replace(batch, lengths=replace(batch.lengths, **means))
    return case.with_workload(replace(case.workload, batch=shorter)).faster(replace(proposal, batch=shorter))


def _running_sequences(workload: Workload) -> int:
    """Sequences that run at once, those of the largest CUDA graph at most: of more the gain is not known."""
    running = min(sequences_per_replica(workload), figures(workload).rollout.concurrent_sequences)
    graph = largest_graph(workload.generator)
    return min(running, graph * workload.generator.data_parallel) if graph else running


def tensor_sizes(model: ModelShape, rollout: Rollout, gpus_per_node: int) -> list[int]:
    """Tensor-parallel sizes of an engine that divide the heads and its GPUs and stay within a node."""
    ranks_per_size = rollout.data_parallel * rollout.pipeline_parallel
    return [
        size
        for size in range(1, min(gpus_per_node, rollout.gpus) + 1)
        if model.heads % size == 0
        and rollout.gpus % (size * ranks_per_size) == 0
        and (model.kv_heads % size == 0 or size % model.kv_heads == 0)
    ]


def misread(case: Case) -> bool:
    """Whether the engine's fraction would fit if it were what vLLM takes it for, a share of the card."""
    if case.workload.generator.fraction_of in (FractionOf.TOTAL, FractionOf.TOTAL_OF_ALL):
        return False
    as_total = case.workload.with_rollout(fraction_of=FractionOf.TOTAL)
    return case.eases(as_total, *AWAKE)


def computes_in_8_bits(gpu: Gpu) -> bool:
    """Whether a card multiplies numbers of 8 bits as the engines' kernels need it: NVIDIA's from sm_89 on."""
    return gpu.vendor.lower() == "nvidia" and gpu.dense_fp8_flop_per_s is not None


def sampled_elsewhere(workload: Workload) -> str:
    """What an engine that computes otherwise than the trainer means for the training."""
    if workload.actor.log_prob is None:
        return _(
            "Nothing corrects for the other policy: the trainer computes no log-probabilities of its own"
        )
    return _(
        "Responses then come from another policy than the one that is trained; importance "
        "weights correct for it"
    )
