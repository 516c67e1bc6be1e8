r"""What the rollout engine's profile run needs beyond weights: the largest step, and what compiling takes.

Symbols: :math:`t` tokens of one scheduling step (``step_tokens``), :math:`s` sequences that are
sampled at once, :math:`b` bytes of a number, :math:`b_V` bytes per logit of the sampler.
"""

from functools import lru_cache

from tuner.dtypes import DType
from tuner.evidence import Evidence
from tuner.memory.ledger.expression import ceil_div, largest
from tuner.memory.ledger.stated import stated
from tuner.memory.ledger.terms import Item, Term
from tuner.model_shape import ModelShape
from tuner.workload import Rollout, Workload

SYMBOLS = {
    "T_p": "tensor-parallel ranks of the rollout engine",
    "b": "bytes of a number in the engine's weights and activations",
    "b_V": "bytes per logit of the sampler",
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
    return _activations(workload.model, workload.rollout)


@lru_cache(maxsize=256)  # most proposals leave the rollout as it is
def _activations(model: ModelShape, rollout: Rollout) -> Term:
    compiles = rollout.tunes_at_start and rollout.cuda_graphs
    return stated(
        Item.ENGINE,
        "engine_activations",
        compiling_step_bytes if compiles else step_bytes,
        profile_numbers(model, rollout),
        evidence=Evidence.MODELLED,
    )


def step_width(model: ModelShape) -> int:
    """Widest MLP that one token passes through: the dense one, or its experts together."""
    if model.moe is None:
        return model.intermediate
    moe = model.moe
    return max(model.intermediate, moe.experts_per_token * moe.expert_intermediate + moe.shared_intermediate)
