"""Parameter offload of the reference under FSDP

What it checks
--------------
``ref.fsdp_config.param_offload=True`` with an FSDP actor.

Why it matters
--------------
The reference's weights always live on the host under FSDP: the worker wraps them with CPU offload whatever this key says, and streams them to the GPU layer by layer, once per micro-batch.
The setting frees nothing, and ``False`` would not keep them on the card either.
What a slow reference pass needs is fewer, larger micro-batches (``ref.log_prob_max_token_len_per_gpu``) or ``ref.fsdp_config.model_dtype=bf16``, which halves what is streamed.

When it does not apply
----------------------
Under Megatron, where the key works.
In a copy of verl that wraps the reference without CPU offload and moves it by hand, as copies from before 0.2 do: there the key decides.
In a copy whose CPU offload asks the key, as in ``elif fsdp_config.param_offload:``.
With LoRA there is no separate reference at all.

Sources
-------
``CPUOffload`` and ``CPUOffloadPolicy`` for every role but the actor: verl 0.4.1 ``workers/fsdp_workers.py:317-343``, 0.7.1 lines 597-625; for engines that only run forward: 0.8.0 ``workers/engine/fsdp/transformer_impl.py:387`` and 414, 0.9.1 lines 432 and 459.
verl #337, #1932, #2655, #7182.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import REFERENCE
from tuner.trainers.verl.source import source_of
from tuner.workload import Phase, Workload

RULE = Rule(
    code="CFG106",
    name="ref-offload-noop",
    summary=N_("parameter offload of a reference that is on the host in any case"),
    severity=Severity.ADVICE,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)

_KEY = f"{REFERENCE}.fsdp_config.param_offload"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the switch is on and a reference runs under FSDP."""
    reference = workload.reference
    if reference is None or not reference.engine.streamed_offload or not settings.flag(_KEY):
        return
    if source_of(settings, version).copy.reference_by_key:
        return
    yield report(
        RULE,
        settings,
        _(
            "{key}=True changes nothing: {release} keeps the reference's weights on the host "
            "under FSDP and streams them in every micro-batch"
        ).format(key=_KEY, release=workload.release),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, False)],
        phase=Phase.REF_LOG_PROB,
        notes=[_("each micro-batch fetches all weights again, so fewer and larger ones are faster")],
    )
