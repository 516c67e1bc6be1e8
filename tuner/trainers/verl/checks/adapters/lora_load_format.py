"""LoRA with a rollout that starts from dummy weights

What it checks
--------------
LoRA adapters under FSDP that the rollout loads as adapters, with a ``rollout.load_format`` that starts with ``dummy``, which is the default.
The override lets the engine load the base model itself.

Why it matters
--------------
The engine then has no base model, so that the first synchronisation has to send all of it: the trainer gathers the whole model for that.
With ``rollout.layered_summon=True``, which gathers layer by layer and sends adapters only, it raises ``ValueError`` instead.

When it does not apply
----------------------
Adapters that are merged before they are sent (``model.lora.merge=True``): then full weights travel in every step.
Megatron, whose bridge exports the base model tensor by tensor: its first synchronisation takes longer, and no rank holds the whole model.

Sources
-------
``collect_lora_params``: verl 0.6.1 ``utils/fsdp_utils.py:620-627``, 0.9.1 lines 724-731; 0.4.1 ``workers/sharding_manager/fsdp_vllm.py:112-114``.
Megatron: verl 0.7.1 ``workers/megatron_workers.py:699-736``, 0.9.1 ``workers/engine/megatron/transformer_impl.py`` (``get_per_tensor_param``: ``export_hf_weights``), neither of which reads ``layered_summon``.
verl 0.9.1 ``docs/advance/ppo_lora.rst``: ``load_format=safetensors`` is required.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import MODEL, ROLLOUT, shards_with_fsdp
from tuner.workload import Phase, Workload

RULE = Rule(
    code="CFG134",
    name="lora-load-format",
    summary=N_("LoRA with a rollout that has no base model"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

GUARDS = (CodeGuard(words="layered_summon base_sync_done", releases=Releases(since="0.4.0")),)

_KEY = f"{ROLLOUT}.load_format"
_LAYERED = f"{ROLLOUT}.layered_summon"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for adapters on dummy weights."""
    lora = workload.actor.engine.lora
    load_format = settings.text(_KEY, default="dummy")
    if lora is None or lora.merged_for_rollout or not load_format.startswith("dummy"):
        return
    if not shards_with_fsdp(workload):
        return
    raises = settings.flag(_LAYERED)
    what = (
        _("raises ValueError with {layered}=True").format(layered=_LAYERED)
        if raises
        else _("gathers and sends the whole base model first")
    )
    yield report(
        RULE,
        settings,
        _("{key}={load_format} with LoRA of rank {rank}: {release} {what}").format(
            key=_KEY, load_format=load_format, rank=lora.rank, release=workload.release, what=what
        ),
        keys=[_KEY, _LAYERED, f"{MODEL}.lora_rank", f"{MODEL}.lora.rank"],
        overrides=[assign(settings, _KEY, "safetensors")],
        severity=None if raises else Severity.WARNING,
        phase=Phase.UPDATE_WEIGHTS,
    )
