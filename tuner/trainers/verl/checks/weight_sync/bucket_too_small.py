"""A weight-sync bucket below the largest tensor

What it checks
--------------
The largest tensor that is sent to the rollout, the embedding of vocabulary times hidden size in the dtype that the trainer sends, against ``checkpoint_engine.update_weights_bucket_megabytes``.
The override is the next power of two in megabytes that holds it.

Why it matters
--------------
For vLLM 0.7.1 copies whole tensors into the bucket and asserts that each fits: the first weight synchronisation fails, after the first generation.
TensorRT-LLM's transfer collects handles of whole tensors and asserts the same from 0.8.0 on.
The legacy workers send weights as FSDP stores them, in float32, so the embedding of a 7B model with 152k tokens needs 2.1 GiB and the default bucket holds 2.

When it does not apply
----------------------
SGLang's transfer groups tensors and has no such limit.
The new workers of 0.7.1 send bfloat16: half of that.
From 0.8.0 on a tensor that is too large for vLLM's bucket goes by a direct CUDA handle.
TensorRT-LLM takes some models with a vision tower whole, in one bucket of any size.

Sources
-------
verl 0.7.1 ``workers/rollout/vllm_rollout/bucketed_weight_transfer.py:136-140``, 0.8.0 line 136; 0.7.1 ``workers/fsdp_workers.py:808``, ``workers/engine/fsdp/transformer_impl.py:770``.
verl 0.8.0 ``workers/rollout/trtllm_rollout/trtllm_rollout.py:512``, 0.9.1 line 519.
verl #5952, #5963.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.keys import key
from tuner.units import MIB
from tuner.workload import Phase, RolloutEngine, Workload

RULE = Rule(
    code="CFG132",
    name="bucket-too-small",
    summary=N_("a weight-sync bucket that cannot hold the largest tensor"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

_ASSERTED = {
    RolloutEngine.VLLM: Releases(since="0.7.1", until="0.8.0"),
    RolloutEngine.TENSORRT_LLM: Releases(since="0.8.0"),
}

GUARDS = (
    CodeGuard(
        words="weight nbytes bucket_size",
        file="vllm_rollout",  # the folder: the code moved from file to file in it
        releases=_ASSERTED[RolloutEngine.VLLM],
        engine=RolloutEngine.VLLM,
        unless="_direct_send_large_weight",
    ),
    CodeGuard(
        words="cur_available_bytes size_in_bytes",
        releases=_ASSERTED[RolloutEngine.TENSORRT_LLM],
        engine=RolloutEngine.TENSORRT_LLM,
    ),
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the embedding does not fit."""
    engine = workload.generator.engine
    if engine not in _ASSERTED or version not in _ASSERTED[engine]:
        return
    if engine is RolloutEngine.TENSORRT_LLM and workload.model.tower is not None:
        return  # the engine is asked whether it takes such a model in parts
    name = key("sync.bucket_megabytes", version)
    tensor = workload.weight_sync.smallest_bucket_bytes
    if name is None or tensor <= workload.weight_sync.bucket_bytes:
        return
    megabytes = -(-tensor // MIB)
    yield report(
        RULE,
        settings,
        _(
            "{name}={bucket} cannot hold the embedding of {model}, {megabytes} MiB as sent: "
            "{release} asserts in the first weight sync"
        ).format(
            name=name,
            bucket=workload.weight_sync.bucket_bytes // MIB,
            model=workload.model.name,
            megabytes=megabytes,
            release=workload.release,
        ),
        keys=[name],
        overrides=[assign(settings, name, 1 << (megabytes - 1).bit_length())],
        phase=Phase.UPDATE_WEIGHTS,
    )
