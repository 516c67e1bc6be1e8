r"""What the rollout engine's profile run needs beyond weights: the largest step, and what compiling takes.

Symbols: :math:`t` tokens of one scheduling step (``max_batched_tokens``), :math:`s` sequences that are
sampled at once, :math:`b` bytes of a number, :math:`b_V` bytes per logit of the sampler.
"""

from math import ceil

from tuner.dtypes import DType
from tuner.model_shape import ModelShape
from tuner.workload import Workload


def engine_activation_bytes(workload: Workload) -> int:
    r"""What the engine needs beyond weights for one step, measured by the profile run.

    .. math::
        \max\Bigl( b \, t \, H + \max\bigl( b \, t \, (3 I / T_p + 3 H),\; b_V \, s \, V \bigr),\;
        b \, H \, V / T_p + 2 \, b \, t \, H \;\text{(vLLM 0.24)} \Bigr)

    Logits exist only after the layers, for the last token of each sequence. The profile run samples with
    top-k and top-p, which a job need not use: up to vLLM 0.12 that sorts all logits (:math:`b_V = 28`:
    bfloat16 and float32 logits, sorted values with 64-bit indices, probabilities, two masks, the values put
    back; :math:`b_V = 32` up to 0.8.2, whose sums of probabilities are a tensor of their own); since 0.18 a
    kernel masks in place (:math:`b_V = 18`: both logits, log-probabilities, probabilities, and the noise
    they are divided by), and the second model runner's draws from a float32 copy (:math:`b_V = 6`). What
    the sort itself allocates is not counted, nor FlashInfer, which samples without sorting where it is
    installed.

    vLLM 0.24 compiles the model within the profile run, and Inductor then times the kernel of the first
    layer on tensors of its own: a copy of the embedding, its input and its output. Where the compiled model
    comes from vLLM's cache, as from the second start on, this is not there and the KV cache is larger. Nor
    is it with a vision tower, beside which the embedding is not compiled.

    Source: vLLM ``v1/worker/gpu_model_runner.py`` (``profile_run``, ``_dummy_sampler_run``),
    ``v1/sample/ops/topk_topp_sampler.py``; 0.6.3 and 0.7.3 ``model_executor/layers/sampler.py``; torch
    ``_inductor/standalone_compile.py`` (``autotune_at_compile_time``), and what 0.24 allocated on an H200.
    """
    return max(step_bytes(workload), tuned_bytes(workload))


def step_bytes(workload: Workload) -> int:
    """Of that, what a step takes once the engine has compiled, see :func:`engine_activation_bytes`."""
    model, rollout = workload.model, workload.rollout
    compute, steps = DType.BFLOAT16.bytes, rollout.max_batched_tokens
    layer = compute * steps * (3 * ceil(step_width(model) / rollout.tensor_parallel) + 3 * model.hidden)
    sampled = min(rollout.max_sequences, steps)
    return compute * steps * model.hidden + max(layer, rollout.sampler_bytes * sampled * model.vocab)


def tuned_bytes(workload: Workload) -> int:
    """Copies on which kernels are timed while the engine compiles; 0 where it does not."""
    model, rollout = workload.model, workload.rollout
    if not (rollout.tunes_at_start and rollout.cuda_graphs):
        return 0
    rows = ceil(model.vocab / rollout.tensor_parallel) + 2 * rollout.max_batched_tokens
    return DType.BFLOAT16.bytes * rows * model.hidden


def step_width(model: ModelShape) -> int:
    """Widest MLP that one token passes through: the dense one, or its experts together."""
    if model.moe is None:
        return model.intermediate
    moe = model.moe
    return max(model.intermediate, moe.experts_per_token * moe.expert_intermediate + moe.shared_intermediate)
