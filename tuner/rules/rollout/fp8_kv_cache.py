"""Keep the KV cache in FP8

What it checks
--------------

The rollout engine keeps its KV cache in 16 bits, and 8 bits would take a fifth of the step away.

Why it matters
--------------

Every decoding step reads the cache of all running sequences: with long responses more than it reads of weights.
In FP8 it is half of that, and the same memory holds twice the tokens, so that more sequences run at once.

When it does not apply
----------------------

It changes the training, so it is never part of what is to be pasted.
Keys and values are rounded to 8 bits, by a scale of 1 where nobody has calibrated any, and responses are sampled from another policy than the one that is trained.
Importance weights between the two, truncated, or rejection of responses correct for it, and need log-probabilities of both: those of the engine, and those that the trainer computes again.
The card needs products in FP8: NVIDIA's from compute capability 8.9 on.
vLLM before 0.11 does it with FlashAttention 3 alone, and latent attention has kernels of its own; both are left out here.
A vLLM that drops its weights in sleep drops the scales with them; where the trainer does not make the weights ready again after a weight sync, as from 0.6.0 to 0.7.0, the cache stays as it is.

Sources
-------

vLLM documentation, "Quantized KV Cache"; vLLM #24577 (cards other than those with compute capability 9.0 and 10.0), #25800 and #28783 (scales after a sleep of level 2).
SGLang documentation, "Quantized KV Cache".
verl 0.4.0 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py``, 0.9.1 ``workers/rollout/vllm_rollout/vllm_async_server.py`` (arguments that are handed on to the engine), 0.7.1 ``workers/rollout/vllm_rollout/utils.py:202-206`` (weights made ready after a weight sync).
"""

from tuner.counted import counted
from tuner.dtypes import DType
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rollout_engine import computes_in_8_bits, sampled_elsewhere
from tuner.rules.wording import count
from tuner.workload import Phase

RULE = Rule(
    code="ROL020",
    name="fp8-kv-cache",
    summary=N_("the rollout engine keeps its KV cache in 16 bits"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.CHANGED,
    yours=True,
)


def check(case: Case) -> Finding | None:
    """Quantize the KV cache where that shortens the step by much."""
    workload, rollout = case.workload, case.workload.generator
    able = rollout.quantizes_cache and computes_in_8_bits(workload.cluster.gpu)
    proposal = workload.with_rollout(kv_dtype=DType.FLOAT8)
    wide = workload.model.latent is None and rollout.kv_dtype.bytes == DType.BFLOAT16.bytes
    if not (able and wide and case.pays_another_training(proposal)):
        return None
    sequences, then = (
        case.rollout.concurrent_sequences,
        case.with_workload(proposal).rollout.concurrent_sequences,
    )
    return Finding(
        rule=RULE,
        message=_(
            "the KV cache of {sequences} is read in decoding steps; in FP8 a sequence takes half "
            "of the bytes, and the same memory holds {then}"
        ).format(sequences=counted(sequences, "sequence"), then=count(then)),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=proposal,
        notes=(sampled_elsewhere(workload),),
    )
