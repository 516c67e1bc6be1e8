"""A fused output head that rounds log-probabilities to 16 bits

What it checks
--------------
``model.use_fused_kernels=True`` with ``impl_backend=torch`` in a release before 0.8.0, with a model that computes in 16 bits.
The override takes the Triton kernel where it is right here, else it switches the fused head off.

Why it matters
--------------
The head computes log-probabilities in float32 and returns them in the dtype of the hidden states.
bfloat16 keeps eight bits: a log-probability between -16 and -8 is rounded to a multiple of 1/16, so that the ratio of new to old policy moves in steps of 6 %.
Clipping and KL terms see those steps and not the policy's own change, and nothing reports it.

When it does not apply
----------------------
From 0.8.0 on the head returns float32, and asserts it.
Where GPUs share sequences and the fused head has to go for its labels already.
With one update a step since 0.6.0, where nothing but the ratio to themselves is made of the log-probabilities: no KL term, no comparison with the engine's.
The Triton kernel returns float32 in every release, and so does Megatron's head.
With ``model.external_lib=tuner.inside_verl`` another head is in place.

Sources
-------
verl 0.7.1 ``utils/experimental/torch_functional.py`` (``_fused_linear_for_ppo_fwd``: ``token_log_probs.to(orig_dtype)``), 0.8.0 the same function (``assert token_log_probs.dtype == torch.float32``).
verl 0.6.0 ``workers/actor/dp_actor.py:390, 430-433`` (``on_policy``).
verl #5662.
"""

from collections.abc import Iterator

from tuner.dtypes import DType
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.head.fused_shared_sequences import shifts_shares
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, MODEL, ROLLOUT, leaves_head_unpatched
from tuner.workload import HeadKind, Workload

RULE = Rule(
    code="CFG169",
    name="fused-log-probs-rounded",
    summary=N_("a fused output head that rounds log-probabilities to 16 bits"),
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    fine_print=True,
)

OF_VERLS_HEAD = True
_BACKEND = f"{MODEL}.fused_kernel_options.impl_backend"
_FUSED = f"{MODEL}.use_fused_kernels"
_EPOCHS = f"{ACTOR}.ppo_epochs"
_TAKES_OWN = Releases(since="0.6.0")
_COMPARES = (f"{ROLLOUT}.calculate_log_probs", f"{ACTOR}.tis_imp_ratio_cap")


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the head that runs rounds."""
    head, computed = workload.actor.head, workload.actor.engine.compute_dtype
    named = settings.text(_BACKEND, default="torch")
    if head.kind is not HeadKind.FUSED_TORCH or named != "torch":  # of other words says fused-backend-unknown
        return
    if head.kind not in head.rounding or computed is DType.FLOAT32 or leaves_head_unpatched(settings):
        return
    triton = HeadKind.FUSED_TRITON in head.fusable
    if _is_told(workload, version, triton=triton) or _has_no_consequence(settings, workload, version):
        return
    yield report(
        RULE,
        settings,
        _(
            "{fused}=True runs PyTorch's fused head, which in {release} returns "
            "log-probabilities in {computed}"
        ).format(fused=_FUSED, release=workload.release, computed=computed.value),
        keys=[_FUSED, _BACKEND],
        overrides=[assign(settings, _BACKEND, "triton") if triton else assign(settings, _FUSED, False)],
    )


def _is_told(workload: Workload, version: str, *, triton: bool) -> bool:
    """Whether fused-shared-sequences switches this head off already."""
    return not triton and shifts_shares(workload, version)


def _has_no_consequence(settings: Settings, workload: Workload, version: str) -> bool:
    """Whether nothing is made of the log-probabilities but a ratio that is 1 whatever they are.

    With one update a step the actor takes its own log-probabilities for the old ones since 0.6.0. A KL term,
    and a comparison with those of the engine, have their values.

    Source: verl 0.6.0 ``workers/actor/dp_actor.py:390, 430-433``; 0.5.0 takes those of another pass.
    """
    has, batch = settings.has_statement, workload.batch
    on_policy = version in _TAKES_OWN if has is None else has("on_policy ppo_epochs", "dp_actor")
    one = batch.mini_batch_prompts >= batch.prompts and settings.integer(_EPOCHS, default=1) == 1
    compared = any(settings.get(key) for key in _COMPARES)
    return on_policy and one and not compared and workload.reference is None
