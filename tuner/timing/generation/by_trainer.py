"""Seconds of responses that the trained model generates itself, by the loop of transformers.

Every rank calls ``generate`` on the module that is trained, with its share of the prompts, all of them in one
batch that is padded: to the longest prompt allowed on the left, and on the right until its last response
ends. Nothing is captured or fused, so the host launches each kernel; the cache of keys and values is put
together anew for every token, and the heads that share keys get copies of them. FSDP gives the weights as
they are stored, once for the batch, and autocast casts them in every step: views of one flat tensor are not
among the casts that it keeps.

Source: verl 0.3.0.post1 to 0.5.0 ``workers/rollout/hf_rollout.py`` (``FSDP.summon_full_params``,
``torch.autocast``), ``workers/fsdp_workers.py`` (``auto_wrap_policy = None``); transformers 4.47 to 4.51
``cache_utils.py`` (``DynamicCache.update``), ``integrations/sdpa_attention.py`` (``repeat_kv``); PyTorch
``aten/src/ATen/autocast_mode.cpp`` (``cached_cast``), ``torch/distributed/fsdp/_flat_param.py``
(``_force_full_precision``).
"""

from math import ceil

from tuner.dtypes import DType
from tuner.timing import assumptions as assume
from tuner.timing.communication import gather_seconds
from tuner.timing.corrections import OperatorFamily, correction
from tuner.timing.decode import (
    RolloutInput,
    arithmetic_seconds,
    cache_token_bytes,
    product_curve,
    sampling_seconds,
)
from tuner.timing.layer import average_layer, cached_keys, visible_keys
from tuner.timing.rates import copy_bytes_per_s, decode_bytes_per_s
from tuner.timing.responses import slowest_responses

_READ_AND_WRITTEN = 2  # each key and value, as the cache is put together anew
_PRODUCTS = 7  # of a layer, whose weights are cast


def generation_parts(inputs: RolloutInput) -> dict[str, float]:
    """Seconds by cause in which a rank generates its responses, the longest of which all others wait for."""
    engine, ranks = inputs.trained, max(1, inputs.rollout.gpus)
    assert engine is not None
    sequences = max(1, ceil(inputs.batch.generated_at_a_time / ranks))
    responses = slowest_responses(inputs.batch, sequences=sequences, engines=ranks)
    steps, prompt = max(tokens for _count, tokens in responses), inputs.batch.max_prompt_tokens
    context = prompt + steps / 2
    gpu_s = _step_seconds(inputs, sequences, context)
    keys = visible_keys(average_layer(inputs.model), prompt)
    weights = _weight_bytes(inputs)
    stored = inputs.model.parameters * engine.stored_dtype.bytes
    return {
        "generating": steps * max(gpu_s, launch_seconds(inputs)),
        "prefill": arithmetic_seconds(inputs, float(sequences * prompt), keys)
        + weights / copy_bytes_per_s(inputs.cluster.gpu),
        "gather": gather_seconds(stored, inputs.cluster, engine.parallel.shard),
    }


def launch_seconds(inputs: RolloutInput) -> float:
    """Seconds in which the host launches the kernels of one step, each from Python."""
    kernels: float = assume.LAYER_KERNELS + assume.CACHE_KERNELS
    if _casts(inputs):
        kernels += assume.CASTS_OF_A_PRODUCT * _PRODUCTS
    step = inputs.model.layers * kernels + assume.CHOOSING_KERNELS
    return step * assume.HOST_LAUNCH_S / correction(inputs.cluster.gpu, OperatorFamily.HOST)


def _step_seconds(inputs: RolloutInput, sequences: int, context: float) -> float:
    """Seconds of the GPU for one token of each sequence."""
    model, gpu = inputs.model, inputs.cluster.gpu
    weights = max(_weight_bytes(inputs) / decode_bytes_per_s(gpu), product_curve(inputs).at(float(sequences)))
    shared = model.heads / model.kv_heads if model.latent is None else 1.0
    accesses = _READ_AND_WRITTEN + (1 + 2 * shared if shared > 1 else 1)
    visible = cached_keys(average_layer(model), context) * model.cached_layers
    cache = sequences * visible * cache_token_bytes(inputs) * accesses / copy_bytes_per_s(gpu)
    return weights + cache + sampling_seconds(inputs, float(sequences))


def _weight_bytes(inputs: RolloutInput) -> float:
    """Bytes of weights that one step moves: each is read, or read, cast, written and read again."""
    assert inputs.trained is not None
    stored = inputs.trained.stored_dtype.bytes if _casts(inputs) else 0
    casts = stored + DType.BFLOAT16.bytes if stored else 0
    return inputs.model.active_parameters * (casts + DType.BFLOAT16.bytes)


def _casts(inputs: RolloutInput) -> bool:
    """Whether the weights are not stored in the dtype that is computed in."""
    assert inputs.trained is not None
    return inputs.trained.stored_dtype is not DType.BFLOAT16
