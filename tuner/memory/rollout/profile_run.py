r"""What the rollout engine's profile run needs beyond weights: the largest step, and what compiling takes.

Symbols: :math:`t` tokens of one scheduling step (``step_tokens``), :math:`s` sequences that are
sampled at once, :math:`b` bytes of a number, :math:`b_V` bytes per logit of the sampler.
"""

from functools import lru_cache

from tuner.dtypes import DType
from tuner.evidence import Evidence
from tuner.memory.ledger.formula import ceil_div, largest
from tuner.memory.ledger.stated_terms import Size, bytes_of, stated
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.rollout.encoder import encoder_numbers, profiled_tower
from tuner.model_shape import ModelShape
from tuner.vision_tower import VisionTower
from tuner.workload import Rollout, Workload

SYMBOLS = {
    "P_e": "patches of the images in the profile run",
    "T_e": "tokens of the images in the profile run",
    "T_p": "tensor-parallel ranks of the rollout engine",
    "a_e": "bytes that the engine's vision tower needs at once per patch",
    "b": "bytes of a number in the engine's weights and activations",
    "b_V": "bytes per logit of the sampler",
    "n_v": "mergers of the vision tower, each of which makes an output of every token",
    "s": "sequences sampled at once",
    "t": "tokens of one scheduling step",
}


def step_bytes(*, b: int, t: int, H: int, I: int, T_p: int, b_V: int, s: int, V: int) -> int:
    """What the engine needs beyond weights for one step, as its profile run measures it.

    Logits exist only after the layers, for the last token of each sequence. The profile run samples with
    top-k and top-p, which a job need not use: up to vLLM 0.12 that sorts all logits (:math:`b_V = 28`:
    bfloat16 and float32 logits, sorted values with 64-bit indices, probabilities, two masks, the values put
    back; :math:`b_V = 32` up to 0.8.2, whose sums of probabilities are a tensor of their own); since 0.18 a
    kernel masks in place (:math:`b_V = 18`: both logits, log-probabilities, probabilities, and the noise
    they are divided by), and the second model runner's draws from a float32 copy (:math:`b_V = 6`). What
    the sort itself allocates is not counted, nor FlashInfer, which samples without sorting where it is
    installed.

    Source: vLLM ``v1/worker/gpu_model_runner.py`` (``profile_run``, ``_dummy_sampler_run``),
    ``v1/sample/ops/topk_topp_sampler.py``; 0.6.3 and 0.7.3 ``model_executor/layers/sampler.py``.
    """
    return b * t * H + largest(b * t * (3 * ceil_div(I, T_p) + 3 * H), b_V * s * V)


def compiling_step_bytes(
    *,
    b: int,
    t: int,
    H: int,
    I: int,
    T_p: int,
    b_V: int,
    s: int,
    V: int,
) -> int:
    """What the profile run measures where the engine compiles within it.

    vLLM 0.24 compiles the model within the profile run, and Inductor then times the kernel of the first
    layer on tensors of its own: a copy of the embedding, its input and its output. Where the compiled model
    comes from vLLM's cache, as from the second start on, this is not there and the KV cache is larger. Nor
    is it with a vision tower, beside which the embedding is not compiled.

    Source: torch ``_inductor/standalone_compile.py`` (``autotune_at_compile_time``), and what 0.24 allocated
    on an H200.
    """
    step = step_bytes(b=b, t=t, H=H, I=I, T_p=T_p, b_V=b_V, s=s, V=V)
    return largest(step, b * H * (ceil_div(V, T_p) + 2 * t))


def seeing_step_bytes(
    *,
    P_e: int,
    a_e: int,
    T_e: int,
    n_v: int,
    b: int,
    t: int,
    H: int,
    I: int,
    T_p: int,
    b_V: int,
    s: int,
    V: int,
) -> int:
    """What vLLM needs beyond weights for the largest images, or beside their tokens for one step.

    The profile run gives images to the vision tower, keeps its output as the encoder cache would, and then
    runs a step. They are of the largest size that the processor lets through, whatever the job's own are, and
    as many as the cache has room for: that holds the tokens of one step, at least those of one such image.
    Counted where a job has images; the profile run of one without does the same.

    Source: vLLM ``v1/worker/gpu_model_runner.py`` (``profile_run``), ``multimodal/encoder_budget.py``
    (``MultiModalBudget``), ``v1/core/encoder_cache_manager.py`` (``compute_mm_encoder_budget``).
    """
    step = step_bytes(b=b, t=t, H=H, I=I, T_p=T_p, b_V=b_V, s=s, V=V)
    return largest(P_e * a_e, n_v * b * T_e * H + step)


def profile_numbers(model: ModelShape, rollout: Rollout) -> dict[str, float]:
    """The symbols of the profile run."""
    return {
        "b": DType.BFLOAT16.bytes,
        "t": rollout.step_tokens,
        "H": model.hidden,
        "I": step_width(model),
        "T_p": rollout.tensor_parallel,
        "b_V": rollout.sampler_bytes,
        "s": min(rollout.max_sequences, rollout.step_tokens),
        "V": model.vocab,
    }


def engine_activations(workload: Workload) -> Term:
    """What the engine's profile run needs beyond weights, and a step may need again."""
    return _activations(workload.model, workload.generator.unsized, profiled_tower(workload))


@lru_cache(maxsize=256)  # most proposals leave the rollout as it is, or change its memory fraction alone
def _activations(model: ModelShape, rollout: Rollout, tower: VisionTower | None) -> Term:
    compiles = rollout.tunes_at_start and rollout.cuda_graphs
    numbers = profile_numbers(model, rollout)
    size: Size = compiling_step_bytes if compiles else step_bytes
    if tower is not None:
        size, numbers = seeing_step_bytes, numbers | encoder_numbers(tower, rollout)
    return stated(Item.ENGINE, "engine_activations", size, numbers, evidence=Evidence.MODELLED)


def least_activations(workload: Workload) -> int:
    """The least that the profile run may need: compiled before, and with kernels that copy nothing."""
    return _least_activations(workload.model, workload.generator.unsized, profiled_tower(workload))


@lru_cache(maxsize=256)
def _least_activations(model: ModelShape, rollout: Rollout, tower: VisionTower | None) -> int:
    numbers = profile_numbers(model, rollout)
    if tower is None:
        return bytes_of(step_bytes, numbers)
    return bytes_of(seeing_step_bytes, numbers | encoder_numbers(tower, rollout, least=True))


def step_width(model: ModelShape) -> int:
    """Widest MLP that one token passes through: the dense one, or its experts together."""
    if model.moe is None:
        return model.intermediate
    moe = model.moe
    return max(model.intermediate, moe.experts_per_token * moe.expert_intermediate + moe.shared_intermediate)
