r"""Seconds of one step of the rollout engine: the GPU's, those in which it waits, and the engine's own.

.. math::
    t &= \max\left(t_{GPU}, t_{launch}\right) + t_{host} \\
    t_{GPU} &= \max\left(t_{weights}, \frac{2 P T}{F_T}\right) + t_{cache} + t_{prompts}
    + t_{sampling} + t_{reductions} + L \, n \, t_{gap} + A \, t_{adapter} \\
    t_{host} &= t_{step} + N \left(t_{sequence} + \max(0, N - N_0) \, t_{crowd}\right) \\
    t_{apart} &= \max\left(t_{GPU}, t_{launch} + \frac{t_{host}}{2},
    \frac{t_{launch} + t_{host} + t_{GPU}}{2}\right)

Weights are read for the T tokens of the step and multiplied with them, at the rate that products of so many
tokens with such layers reach; the cache is read for the N sequences that decode. Both are read at rates that
were measured by size, experts at one rate. Between the n other kernels of each of L layers the GPU pauses for
:math:`t_{gap}`; kernels that no CUDA graph replays, under vLLM's older core those of steps with a sequence of
more than 8192 tokens as well, are
launched by the host one after the other, torch's own operators among them, and the step takes no less than
that. The host's own time comes
after the GPU's, or beside it where the engine prepares one step while the GPU computes the one before. Where
its worker has a process of its own, as in verl's servers since 0.7.1, scheduler and worker share that time
and messages between them are part of it; no more than two steps are on their way at once, so that the
scheduler waits with the next until the tokens of the last but one are there, and two steps take no less than
what both hosts and the GPU take for one. The
last term is that of log-probabilities, which an engine in the trainer's process keeps as objects of Python:
the more sequences beyond :math:`N_0`, the longer for each. The
reductions are those of tensor parallelism, with the gathering of the N sequences' logits, of which each rank
has a part. Of adapters there are A pairs of products, each of which takes as long however few its tokens.
"""

from functools import lru_cache
from math import inf
from typing import TypeAlias

from msgspec import Struct

from tuner.serving.graphs import largest_graph, longest_graph
from tuner.timing import assumptions as assume
from tuner.timing.corrections import OperatorFamily, correction
from tuner.timing.decode import (
    RolloutInput,
    TokenCurve,
    arithmetic_seconds,
    gathering_seconds,
    product_curve,
    reduction_seconds,
    sampling_seconds,
    weight_read_bytes,
)
from tuner.timing.generation.kernels import (
    adapted_products,
    engine_kernels,
    engine_operators,
    is_compiled,
)
from tuner.timing.host import engine_launch_seconds
from tuner.timing.layer import LayerWork, average_layer, cached_keys, visible_keys
from tuner.timing.measured_reads import Plane
from tuner.timing.rates import decode_bytes_per_s
from tuner.timing.reads import cache_plane, weight_curve
from tuner.timing.spreads import ENDS

_UNTOLD = 0.25  # of a host's seconds, by which the GPU's may be wrong where one follows the other

CAUSES = ("decode", "prefill", "communication", "gaps", "launch", "engine")

#: By cause; then the GPU's, those of launching its kernels, and the rest of its host's.
StepSeconds: TypeAlias = tuple[float, float, float, float, float, float, float, float, float]


class StepPrices(Struct, frozen=True, kw_only=True):
    """What the seconds of a step are put together from; each grows in proportion to something."""

    experts: RolloutInput | None  # where the weights that a step reads depend on its tokens
    layer: LayerWork  # the average one of the model
    largest_graph: float  # sequences of the largest step that a CUDA graph replays
    longest_graph: float = inf  # tokens of the longest sequence of a step that one replays
    overlaps: bool  # the host prepares a step while the GPU computes the one before
    apart: bool = False  # and half of it in another process, with two steps on their way at most
    weights: TokenCurve | None  # reading them, by tokens; None where experts are among them
    products: TokenCurve
    cache: Plane  # reading it, by visible keys and by sequences that decode
    prompt_key: float  # attention, each token of a prompt
    earlier_key: float  # attention, each token of a prompt and each key that was there before the prompt
    sampled: float
    gathered: float  # logits of each sequence that gets a token
    reduction: float  # fixed
    reduced: float  # each token
    kernels: int
    waiting_kernels: int  # of them, those whose pauses are in no measured rate
    launched: float  # on the host, each kernel that no graph replays
    adapters: float = 0.0  # fixed: their kernels, without the pauses between them
    operators: float = 0.0  # on the host, torch's own operators between these, all of them
    step: float  # on the host, each step
    sequence: float  # on the host, each sequence
    crowd: float = 0.0  # on the host, each sequence and each of those beyond the first 64
    front: float = 0.0  # in a process of its own, which is behind the engine, each sequence

    def parts(
        self,
        decoding: float,
        context: float,
        sampled: float,
        prompt_tokens: float,
        earlier: float = 0.0,
        longest: float = 0.0,
    ) -> tuple[float, ...]:
        """Seconds of a step by cause, in the order of ``CAUSES``; arguments as of ``priced``."""
        return self.priced(decoding, context, sampled, prompt_tokens, earlier, longest)[: len(CAUSES)]

    def priced(
        self,
        decoding: float,
        context: float,
        sampled: float,
        prompt_tokens: float,
        earlier: float = 0.0,
        longest: float = 0.0,
    ) -> StepSeconds:
        """Seconds of a step by cause; the GPU's, those of launching its kernels, and the rest of its host's.

        Args:
            decoding: sequences that get a token from a token before.
            context: tokens that each of them sees.
            sampled: sequences that get a token, those whose prompt has ended among them.
            prompt_tokens: of prompts that are computed.
            earlier: tokens before these that the cache has already, of one sequence.
            longest: tokens that the longest of the sequences sees, where that is more than ``context``.
        """
        tokens = decoding + prompt_tokens
        cached = self.cache.at(cached_keys(self.layer, context), decoding) if decoding else 0.0
        drawn = sampled * self.sampled
        read = self._read(tokens)
        token = self.products.at(decoding) if decoding else 0.0
        prompt = self.products.at(tokens) if prompt_tokens else token
        # Comparisons in place of calls: some hundred steps of a rollout are priced one after the other.
        decode = (token if token > read else read) + cached
        decode += drawn
        both = (prompt if prompt > read else read) + cached
        prefill = both + drawn + prompt_tokens * self.prompt_key - decode
        if earlier:
            prefill += prompt_tokens * cached_keys(self.layer, earlier) * self.earlier_key
        reductions = self.reduction + tokens * self.reduced + sampled * self.gathered
        gaps = self.waiting_kernels * assume.GRAPH_LAUNCH_S + self.adapters
        gpu = decode + prefill + reductions + gaps
        replayed = tokens <= self.largest_graph and context <= self.longest_graph >= longest
        launch = 0.0 if replayed else self.kernels * self.launched + self.operators
        waiting = launch - gpu if launch > gpu else 0.0
        host = self.step + sampled * self.sequence
        if self.crowd and sampled > assume.ENGINE_LOG_PROB_SEQUENCES:
            host += sampled * self.crowd * (sampled - assume.ENGINE_LOG_PROB_SEQUENCES)
        if self.apart:
            exposed = shown_of_host(gpu, launch, host) - waiting
        else:
            hidden = gpu + waiting - launch if self.overlaps else 0.0
            exposed = host - hidden if host > hidden else 0.0
        return decode, prefill, reductions, gaps, waiting, exposed, gpu, launch, host

    def _read(self, tokens: float) -> float:
        if self.weights is not None:
            return self.weights.at(tokens)
        assert self.experts is not None
        return weight_read_bytes(self.experts, tokens) / decode_bytes_per_s(self.experts.cluster.gpu)


def shown_of_host(gpu: float, launch: float, host: float) -> float:
    """Seconds of a step in which the GPU waits for two processes, which do half of what prepares it each.

    The worker launches a step while the GPU computes the one before. The scheduler asks for another one when
    the tokens of the last but one have come: as long as a step takes from there to its end, one follows
    another at half of that.

    Source: vLLM 0.24 ``v1/engine/core.py`` (``step_with_batch_queue``), ``config/vllm.py``
    (``max_concurrent_batches``), ``v1/executor/multiproc_executor.py``.
    """
    if launch > gpu:
        return launch + host / 2 - gpu
    return (launch + host - gpu) / 2 if launch + host > gpu else 0.0


@lru_cache(maxsize=256)
def step_prices(inputs: RolloutInput) -> StepPrices:
    """The prices of a rollout's steps."""
    prompt = max(1.0, inputs.batch.mean_prompt_tokens)
    products = arithmetic_seconds(inputs, 1.0, 0.0)
    layer, largest = average_layer(inputs.model), largest_graph(inputs.rollout)
    longest = longest_graph(inputs.rollout)
    reduction = reduction_seconds(inputs, 0.0)
    samples = inputs.rollout.samples_log_probs
    sequence = assume.FIRST_CORE_SEQUENCE_S if inputs.rollout.first_core else assume.ENGINE_SEQUENCE_S
    if samples:  # in the trainer's process, whose front end is the first core's own
        sequence += assume.ENGINE_LOG_PROB_S
        sequence += 0.0 if inputs.rollout.first_core else assume.ENGINE_OUTPUT_S
    gpu, dense, apart = inputs.cluster.gpu, inputs.model.moe is None, inputs.rollout.worker_apart
    step = assume.ENGINE_STEP_S
    if apart:
        step += assume.ENGINE_MESSAGES_S
    returned = apart and inputs.rollout.returns_log_probs
    if returned:
        step, sequence = step + assume.SERVED_LOG_PROBS_S, sequence + assume.SERVED_LOG_PROB_S
    front = (assume.FRONT_END_LOG_PROB_S if returned else assume.FRONT_END_S) if apart else 0.0
    kernels = engine_kernels(inputs)
    measured_kernels = assume.MEASURED_KERNELS if dense else assume.MEASURED_KERNELS_OF_EXPERTS
    return StepPrices(
        experts=None if dense else inputs,
        layer=layer,
        largest_graph=inf if largest is None else largest,
        longest_graph=inf if longest is None else longest,
        overlaps=inputs.rollout.overlaps_scheduling,
        apart=apart,
        weights=weight_curve(inputs) if dense else None,
        products=product_curve(inputs),
        cache=cache_plane(inputs),
        prompt_key=arithmetic_seconds(inputs, 1.0, visible_keys(layer, prompt)) - products,
        earlier_key=arithmetic_seconds(inputs, 1.0, 1.0) - products,
        sampled=sampling_seconds(inputs, 1.0),
        gathered=gathering_seconds(inputs, 1.0),
        reduction=reduction,
        reduced=reduction_seconds(inputs, 1.0) - reduction,
        kernels=kernels,
        waiting_kernels=kernels - inputs.model.layers * measured_kernels,
        adapters=adapted_products(inputs) * assume.ADAPTED_PRODUCT_S,
        launched=engine_launch_seconds(gpu, compiled=is_compiled(inputs)),
        operators=engine_operators(inputs) * assume.BARE_LAUNCH_S / correction(gpu, OperatorFamily.HOST),
        step=step / correction(gpu, OperatorFamily.ENGINE),
        sequence=sequence / correction(gpu, OperatorFamily.ENGINE_SEQUENCE),
        crowd=(assume.ENGINE_LOG_PROB_CROWD_S if samples else 0.0)
        / correction(gpu, OperatorFamily.ENGINE_SEQUENCE),
        front=front / correction(gpu, OperatorFamily.ENGINE_SEQUENCE),
    )


def decode_step_parts(inputs: RolloutInput, sequences: float) -> dict[str, float]:
    """Seconds by cause of one decoding step with this many running sequences in the replica.

    Each in the middle of its mean response; data-parallel engines and pipeline stages divide them.
    """
    running = of_one_engine(inputs, sequences)
    context = inputs.batch.mean_prompt_tokens + inputs.batch.mean_response_tokens / 2
    prices = step_prices(inputs)
    seconds = prices.parts(running, context, sampled=running, prompt_tokens=0.0)
    return named_parts(prices, seconds, steps=1.0)


def named_parts(prices: StepPrices, seconds: tuple[float, ...], *, steps: float) -> dict[str, float]:
    """Seconds of some steps by cause, with those of adapters by themselves where there are any.

    Args:
        prices: of a step.
        seconds: of all steps, in the order of ``CAUSES``.
        steps: how many.
    """
    parts = dict(zip(CAUSES, seconds, strict=True))
    if not prices.adapters:
        return parts
    adapters = steps * prices.adapters
    return parts | {"gaps": parts["gaps"] - adapters, "adapters": adapters}


def preparing_seconds(inputs: RolloutInput, sequences: float, seconds: float) -> float | None:
    """What a host took to prepare a step of an engine, beside launching its kernels.

    Args:
        inputs: the rollout, whose sequences are in the middle of their mean response.
        sequences: that run in the replica.
        seconds: of the step, as measured.

    Returns:
        None where the step says too little of the host, since the GPU may have decided how long it took: its
        own seconds are known only as well as the rate at which it reads.
    """
    running, prices = of_one_engine(inputs, sequences), step_prices(inputs)
    context = inputs.batch.mean_prompt_tokens + inputs.batch.mean_response_tokens / 2
    *_causes, gpu, launch, _prepare = prices.priced(running, context, sampled=running, prompt_tokens=0.0)
    slower = assume.DECODE_MEMORY_SHARE / ENDS["DECODE_MEMORY_SHARE"][0]
    if prices.overlaps:
        host = 2 * seconds - launch - gpu if prices.apart else seconds - launch
        decisive = seconds > slower * gpu
    else:
        host = seconds - max(gpu, launch)
        decisive = (slower - 1) * gpu < _UNTOLD * host
    return host if decisive and host > 0 else None


def of_one_engine(inputs: RolloutInput, sequences: float) -> float:
    """The sequences of one engine's step, of those that run in the replica."""
    return sequences / (inputs.rollout.data_parallel * inputs.rollout.pipeline_parallel)
