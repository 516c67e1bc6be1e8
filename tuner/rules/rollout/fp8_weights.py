"""Generate with weights in FP8

What it checks
--------------

The rollout engine holds its weights in 16 bits, and 8 bits would take a fifth of the step away.

Why it matters
--------------

A decoding step reads every weight once, whatever the number of sequences, and the cache beside it.
In FP8 the weights of the layers take half of the bytes, and the products of long prompts run at twice the rate.
What the weights no longer take of the engine's share becomes KV cache, so more sequences run at once.
Embedding and output projection stay in 16 bits.

When it does not apply
----------------------

It changes the training, so it is never part of what is to be pasted.
Responses are sampled from another policy than the one that is trained, and the distance grows with every layer.
Importance weights between the two, truncated, or rejection of responses correct for it, and need log-probabilities of both: those of the engine, and those that the trainer computes again.
Without that second pass nothing tells the two policies apart.
The card needs products in FP8: NVIDIA's from compute capability 8.9 on.
Blocks of 128 by 128 weights share a scale, so that 128 has to divide what one tensor-parallel rank holds of heads, key-value heads and MLP.
Adapters, latent and linear attention are left out here.
Weights are quantized anew in every weight sync, which is not counted.

Sources
-------

verl documentation, "FP8 rollout": 12 to 18 % faster for a dense model, with truncated importance sampling.
verl 0.7.0 ``workers/rollout/vllm_rollout/vllm_async_server.py`` and ``workers/rollout/sglang_rollout/async_sglang_server.py`` (first release that has it), ``utils/vllm/vllm_fp8_utils.py`` (blocks); 0.9.1 ``utils/vllm/vllm_fp8_utils.py``.
vLLM ``model_executor/layers/quantization/utils/fp8_utils.py`` (``validate_fp8_block_shape``).
"""

from tuner.counted import counted
from tuner.dtypes import DType
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.memory.rollout.weights import engine_weights
from tuner.model_shape import ModelShape
from tuner.rules.case import Case
from tuner.rules.rollout_engine import computes_in_8_bits, sampled_elsewhere
from tuner.rules.wording import count, gib
from tuner.workload import Phase, Rollout, RolloutEngine

RULE = Rule(
    code="ROL019",
    name="fp8-weights",
    summary=N_("the rollout engine holds its weights in 16 bits"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.CHANGED,
    yours=True,
)

_BLOCK = 128  # weights along either side of a block that has one scale


def check(case: Case) -> Finding | None:
    """Quantize the engine's weights where that shortens the step by much."""
    workload, rollout = case.workload, case.workload.generator
    if rollout.weight_dtype.bytes != DType.BFLOAT16.bytes or not computes_in_8_bits(workload.cluster.gpu):
        return None
    served = rollout.engine in (RolloutEngine.VLLM, RolloutEngine.SGLANG)
    proposal = workload.with_rollout(weight_dtype=DType.FLOAT8)
    blocked = workload.actor.engine.lora is None and _divides_into_blocks(workload.model, rollout)
    if not (served and blocked and case.pays_another_training(proposal)):
        return None
    before, after = engine_weights(workload).bytes, engine_weights(proposal).bytes
    sequences, then = (
        case.rollout.concurrent_sequences,
        case.with_workload(proposal).rollout.concurrent_sequences,
    )
    return Finding(
        rule=RULE,
        message=_(
            "weights of {before} are read in every decoding step; FP8 makes them {after} and the "
            "cache hold {sequences} instead of {now}"
        ).format(
            before=gib(before), after=gib(after), sequences=counted(then, "sequence"), now=count(sequences)
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=proposal,
        notes=(sampled_elsewhere(workload),),
    )


def _divides_into_blocks(model: ModelShape, rollout: Rollout) -> bool:
    """Whether whole blocks make up what each tensor-parallel rank holds of every product."""
    if model.latent is not None or model.linear is not None or model.extra_parameters:
        return False
    ranks = rollout.tensor_parallel
    widths = [model.heads * model.head_dim, model.kv_heads * model.head_dim, model.hidden * ranks]
    if model.moe is None or model.moe.dense_layers:
        widths.append(model.intermediate)
    if model.moe is not None:
        divided = rollout.expert_parallel == 1
        widths.append(model.moe.expert_intermediate * (1 if divided else ranks))
        widths.append(model.moe.shared_intermediate)
    return all(width % (_BLOCK * ranks) == 0 for width in widths)
