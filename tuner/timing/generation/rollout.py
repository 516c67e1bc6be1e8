"""Seconds of the rollout: the engine that ends last is simulated, and its steps are priced."""

from functools import cached_property, lru_cache
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from tuner.serving.graphs import longest_graph
from tuner.timing import assumptions as assume
from tuner.timing.decode import RolloutInput, is_replayed
from tuner.timing.generation.load import Load, Simulated, Turns, priced_step
from tuner.timing.generation.simulation import as_far_as_decides, simulate
from tuner.timing.generation.step import (
    StepPrices,
    decode_step_parts,
    named_parts,
    of_one_engine,
    shown_of_host,
    step_prices,
)
from tuner.timing.responses import PARTS, slowest_responses
from tuner.workload import RolloutEngine

_RESERVES_UP_TO = 4096  # tokens; source: SGLang ``CLIP_MAX_NEW_TOKENS_ESTIMATION``
_SIMULATED = 64  # sequences at least
_PARTS_IN_TURNS = 14  # in which responses come that have turns: each part comes once in a turn
_WAVES = 4  # times the sequences that run at once are simulated at most


def sequences_of(inputs: RolloutInput) -> int:
    """Sequences of one engine, in one round."""
    engines = inputs.rollout.replicas * inputs.rollout.data_parallel
    return max(1, ceil(inputs.batch.generated_at_a_time / engines))


def _most_running(inputs: RolloutInput) -> int:
    """Sequences that an engine may run at a time: its limit, or as many as a trainer lets it have."""
    limit = max(1, min(inputs.rollout.max_sequences, inputs.rollout.step_tokens))
    handed = inputs.rollout.prompts_at_once
    if handed is not None:
        of_replica = handed * inputs.batch.responses_per_prompt
        limit = max(1, min(limit, ceil(of_replica / inputs.rollout.data_parallel)))
    if inputs.rollout.sequences_at_once is not None:
        limit = max(1, min(limit, ceil(inputs.rollout.sequences_at_once / inputs.rollout.data_parallel)))
    filtered = inputs.batch.group_filter
    if filtered is None or filtered.at_once is None:
        return limit
    engines = inputs.rollout.replicas * inputs.rollout.data_parallel
    return max(1, min(limit, ceil(filtered.at_once * inputs.batch.sequences / engines)))


@lru_cache(maxsize=256)
def load_of(inputs: RolloutInput, concurrent_sequences: int) -> Load:
    """What the engine that ends last is given.

    The cache holds ``concurrent_sequences`` in a replica, each with the room that is planned for it
    (``Batch.room_tokens``). With prefix caching the responses to one prompt share its blocks, but for the
    last one, which each of them computes again.
    """
    batch, rollout = inputs.batch, inputs.rollout
    engines, sequences = rollout.replicas * rollout.data_parallel, sequences_of(inputs)
    prompt, last = max(1.0, batch.mean_prompt_tokens), rollout.block_tokens / 2
    sharing = batch.responses_per_prompt if rollout.prefix_caching else 1
    own = 0.0 if sharing == 1 else min(last, prompt) * (1 - 1 / sharing)
    reserves = rollout.engine is RolloutEngine.SGLANG
    cache = max(1, concurrent_sequences) / rollout.data_parallel * batch.room_tokens
    prompt_tokens = prompt / sharing + last
    at_once = min(_most_running(inputs), cache / (prompt_tokens + max(1.0, batch.mean_response_tokens) / 2))
    simulated = min(sequences, max(_SIMULATED, ceil(_WAVES * at_once)))
    talks = batch.conversation is not None and batch.conversation.turns > 1
    responses = slowest_responses(
        batch,
        sequences=sequences,
        engines=engines,
        simulated=simulated,
        parts=_PARTS_IN_TURNS if talks else PARTS,
    )
    return Load(
        responses=responses,
        turns=_turns(inputs, responses),
        prompt_tokens=prompt,
        held_prompt=prompt_tokens,
        new_prompt=prompt / sharing + own,
        cache_tokens=cache,
        max_sequences=_most_running(inputs),
        step_tokens=max(1, rollout.step_tokens),
        chunked=rollout.chunked_prefill,
        keeps_blocks=rollout.prefix_caching,
        reserved_tokens=min(_RESERVES_UP_TO, batch.max_response_tokens) if reserves else 0,
        tells_longest=longest_graph(rollout) is not None,
    )


def _turns(inputs: RolloutInput, responses: tuple[tuple[int, int], ...]) -> Turns | None:
    """How those responses are cut into turns; None where they are one piece each.

    The response with the most turns is the one that ends last: its calls of tools take all that it waits.
    """
    batch, rollout = inputs.batch, inputs.rollout
    talk = batch.conversation
    if talk is None or talk.turns <= 1:
        return None
    from tuner.timing.generation.turns import cut_responses  # few jobs have turns

    cuts = cut_responses(responses, mean=talk.turns, most=talk.most_turns, tool_tokens=talk.tool_tokens)
    calls = max(cut.number for cut in cuts) - 1
    engines = rollout.replicas * rollout.data_parallel
    return Turns(
        cuts=cuts,
        prompt_tokens=max(1.0, batch.mean_prompt_tokens),
        block_tokens=rollout.block_tokens,
        tool_s=(batch.lengths.tool_seconds or 0.0) / calls if calls else 0.0,
        agent_s=assume.AGENT_TURN_S,
        agents=inputs.agents / engines if inputs.agents else 1.0,
        prices=step_prices(inputs),
        stages=rollout.pipeline_parallel,
    )


def generation(inputs: RolloutInput, *, concurrent_sequences: int) -> Simulated:
    """What the engine that ends last does."""
    return _generated(as_far_as_decides(load_of(inputs, concurrent_sequences)), sequences_of(inputs))


def _generated(load: Load, sequences: int) -> Simulated:
    """What an engine does with so many sequences like those of a load.

    Where it has many times the sequences that run at once, a part of them is simulated; what it does while
    some of these wait goes on for the tokens of the others.
    """
    simulated, left = simulate(load), sequences - load.sequences
    return simulated.repeated(left * load.response_tokens / load.sequences) if left else simulated


def waiting_seconds(inputs: RolloutInput) -> float:
    """What the response that ends last waits for tools where nobody says how many turns it has.

    It is added to what it is generated in.

    While it waits, the engine goes on with other responses: at most all of it comes on top, and nothing where
    others end as late.

    Source: verl 0.9.1 ``experimental/agent_loop/agent_loop.py`` (``_performance_metrics``), which finds the
    slowest response by the sum of both.
    """
    return inputs.batch.lengths.tool_seconds or 0.0


class EngineHost(Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """What an engine's host does in the steps of a rollout, beside what the GPU does in them."""

    overlaps: bool  # it prepares a step while the GPU computes the one before
    apart: bool = False  # in two processes, with a third one behind them that gives out the tokens
    # Of each stretch its steps, and of one of them the GPU's seconds, those of launching it, of preparing it.
    steps: tuple[float, ...]
    gpu_s: tuple[float, ...]
    launch_s: tuple[float, ...]
    prepare_s: tuple[float, ...]
    step_s: float = 0.0  # of preparing one of them, whatever its sequences
    # In which the third process gives out its tokens.
    front_s: tuple[float, ...] = ()

    @cached_property
    def fixed_share(self) -> float:
        """The share of what prepares its steps that does not grow with their sequences."""
        pairs = zip(self.steps, self.prepare_s, strict=True)
        whole = sum([steps * prepare for steps, prepare in pairs])
        return self.step_s * sum(self.steps) / whole if whole else 0.0

    def then(self, other: "EngineHost") -> "EngineHost":
        """This generation and another behind it, by the same engine."""
        return replace(
            self,
            steps=self.steps + other.steps,
            gpu_s=self.gpu_s + other.gpu_s,
            launch_s=self.launch_s + other.launch_s,
            prepare_s=self.prepare_s + other.prepare_s,
            front_s=self.front_s + other.front_s,
        )


@lru_cache(maxsize=64)  # many proposals leave the rollout as it is
def waiting_for(engine: EngineHost, launching: float, preparing: float) -> float:
    """Seconds in which the GPU waits for a host.

    Args:
        engine: what they do.
        launching: times as long as typical that it takes to launch kernels.
        preparing: the same of preparing steps.
    """
    if engine.apart:
        return _waiting_for_processes(engine, launching, preparing)
    total = 0.0
    for steps, gpu, launch, prepare in zip(
        engine.steps, engine.gpu_s, engine.launch_s, engine.prepare_s, strict=True
    ):
        launch *= launching
        prepare *= preparing
        waiting = launch + prepare - gpu if engine.overlaps else launch - gpu
        total += steps * (max(0.0, waiting) + (0.0 if engine.overlaps else prepare))
    return total


def _waiting_for_processes(engine: EngineHost, launching: float, preparing: float) -> float:
    """Seconds in which the GPU waits for three processes: scheduler, worker and front end.

    The front end falls behind where it takes longer than a step, and catches up in shorter ones.
    """
    clock = behind = waiting = 0.0
    for steps, gpu, launch, prepare, front in zip(
        engine.steps, engine.gpu_s, engine.launch_s, engine.prepare_s, engine.front_s, strict=True
    ):
        shown = shown_of_host(gpu, launch * launching, prepare * preparing)
        behind = (clock if clock > behind else behind) + steps * front * preparing
        clock += steps * (gpu + shown)
        waiting += steps * shown
    return waiting + max(0.0, behind - clock)


class RolloutSeconds(Struct, frozen=True, kw_only=True, eq=False):
    """Seconds of a whole rollout by cause, and its host's."""

    parts: dict[str, float]
    host: EngineHost

    def shared_by(self, batches: int) -> "RolloutSeconds":
        """The part of one of so many batches that are generated side by side."""
        parts = {cause: seconds / batches for cause, seconds in self.parts.items()}
        host = replace(self.host, steps=tuple([steps / batches for steps in self.host.steps]))
        return RolloutSeconds(parts=parts, host=host)


def rollout_seconds(inputs: RolloutInput, *, concurrent_sequences: int) -> RolloutSeconds:
    """Seconds by cause of the whole rollout, with that of greedy responses which may come behind it.

    Replicas run side by side. Where batches do, one has its part of their seconds: responses of the next ones
    run beside the longest of it.

    Args:
        inputs: the rollout of a job.
        concurrent_sequences: sequences with the room planned for them that a replica's cache holds.
    """
    together = inputs.rollout.batches_at_once
    if together > 1:
        batch = replace(inputs.batch, prompts=together * inputs.batch.prompts)
        whole = replace(inputs, batch=batch, rollout=replace(inputs.rollout, batches_at_once=1))
        return rollout_seconds(whole, concurrent_sequences=concurrent_sequences).shared_by(together)
    first = _one_generation(inputs, concurrent_sequences)
    greedy = inputs.batch.second_generation
    if greedy is None:
        return first
    second = _one_generation(replace(inputs, batch=greedy), concurrent_sequences)
    causes = dict.fromkeys((*first.parts, *second.parts))
    return RolloutSeconds(
        parts={cause: first.parts.get(cause, 0.0) + second.parts.get(cause, 0.0) for cause in causes},
        host=first.host.then(second.host),
    )


def _one_generation(inputs: RolloutInput, concurrent_sequences: int) -> RolloutSeconds:
    """Seconds by cause of the responses that are asked for together."""
    load = as_far_as_decides(load_of(inputs, concurrent_sequences))
    stages = inputs.rollout.pipeline_parallel
    prices = step_prices(inputs)
    seconds, idle, host = _priced(prices, load, sequences=sequences_of(inputs), stages=stages)
    rounds = inputs.batch.generation_rounds
    if rounds > 1:
        seconds, idle = tuple([rounds * part for part in seconds]), rounds * idle
        host = replace(host, steps=tuple([rounds * steps for steps in host.steps]))
    parts = named_parts(prices, seconds, steps=sum(host.steps))
    if load.turns is not None:
        return RolloutSeconds(parts=parts | {"idle": idle} if idle else parts, host=host)
    waiting = rounds * waiting_seconds(inputs)
    return RolloutSeconds(parts=parts | {"tools": waiting} if waiting else parts, host=host)


@lru_cache(maxsize=256)  # proposals often change neither what the engine does nor what it costs
def _priced(
    prices: StepPrices, load: Load, *, sequences: int, stages: int
) -> tuple[tuple[float, ...], float, EngineHost]:
    """Seconds by cause of all steps of an engine, each of whose pipeline stages has its part of them.

    Then those in which it has nothing to do, since all sequences are with their tools.
    """
    decode = prefill = reductions = gaps = launch = engine = 0.0
    simulated = _generated(load, sequences)
    priced = simulated.priced or [priced_step(prices, stretch, stages) for stretch in simulated.stretches]
    for stretch, parts in zip(simulated.stretches, priced, strict=True):
        steps = stretch.steps
        decode += steps * parts[0]
        prefill += steps * parts[1]
        reductions += steps * parts[2]
        gaps += steps * parts[3]
        launch += steps * parts[4]
        engine += steps * parts[5]
    # Columns, not rows: processes remember many rollouts, and a row for each stretch would be most of it.
    host = EngineHost(
        overlaps=prices.overlaps,
        apart=prices.apart,
        steps=tuple([stretch.steps for stretch in simulated.stretches]),
        gpu_s=tuple([parts[6] for parts in priced]),
        launch_s=tuple([parts[7] for parts in priced]),
        prepare_s=tuple([parts[8] for parts in priced]),
        step_s=prices.step,
        front_s=tuple([stretch.sampled * prices.front for stretch in simulated.stretches]),
    )
    if prices.apart:
        engine = max(engine, _waiting_for_processes(host, 1.0, 1.0) - launch)
    return (decode, prefill, reductions, gaps, launch, engine), simulated.idle_s, host


def waits_for_host(inputs: RolloutInput, *, concurrent_sequences: int) -> bool:
    """Whether a full decoding step ends when the host has scheduled the next one, whatever the GPU does.

    More sequences then take as much longer: all that they could save is the host's time of a step that
    does not grow with them, of which little is known. Kernels that it launches one by one are another
    matter: their number does not grow.

    Where two processes of the host share its work, each of them decides by itself where its half takes longer
    than the GPU.
    """
    rollout = inputs.rollout
    if not rollout.overlaps_scheduling:
        return False
    most = generation(inputs, concurrent_sequences=concurrent_sequences).most_running * rollout.data_parallel
    if not is_replayed(inputs, of_one_engine(inputs, most)):
        return False
    parts = decode_step_parts(inputs, most)
    gpu = sum(parts.values()) - parts["engine"]
    # With half of the host's time h above that of the GPU, g, what shows of it is (h - g) / 2 > g / 2.
    return parts["engine"] > (gpu / 2 if rollout.worker_apart else 0)
