"""Use FlashAttention where PyTorch's own attention pairs all tokens of a row

What it checks
--------------

A key asks for PyTorch's attention, or the eager one, under FSDP, FlashAttention could run, and it shortens the step.

Why it matters
--------------

For PyTorch's attention transformers makes a mask of a row, which its flash kernel does not take: all pairs of tokens are computed, those of other sequences, of padding and of later tokens as well, and only then masked.
FlashAttention computes the pairs of each sequence alone, keeps no mask and does not repeat keys and values to all heads.
Eager attention writes scores and probabilities of all pairs and heads to memory and keeps them, in float32 and once more, where layers are not computed again.
The more sequences stand in a micro-batch, the larger is the difference.

When it does not apply
----------------------

The code of a copy decides the attention, not a key.
Cards before Ampere, which flash-attn has no kernels for, Ascend cards, and weights that are computed in float32.
Heads of more than 256 values and attention sinks, which FlashAttention 2 lacks.
The package flash-attn is missing where the job runs: where nothing else there needs it, the line stands apart as one that needs the package.

Sources
-------

flash-attn 2.8.3, ``README.md`` (Ampere, Ada and Hopper, fp16 and bf16, head dimensions up to 256).
transformers 4.57.6, ``integrations/sdpa_attention.py``, ``masking_utils.py`` (``sdpa_mask``), ``models/gpt_oss/modeling_gpt_oss.py`` (``_supports_flash_attn``).
verl 0.9.1, ``workers/config/model.py:185``; 0.6.1, ``workers/fsdp_workers.py:318``.
"""

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.model_shape import ModelShape
from tuner.rules.case import Case
from tuner.workload import Attention, Engine, Workload

RULE = Rule(
    code="KRN010",
    name="row-attention",
    summary=N_("attention computes all pairs of tokens of a row and masks most of them"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)

_WITH_PACKAGE = replace(RULE, package="flash-attn")
_MOST_OF_A_HEAD = 256
_BYTES = 2  # of the dtypes that there are kernels for


def check(case: Case) -> Finding | None:
    """FlashAttention in every engine that a key gave PyTorch's."""
    workload = case.workload
    gpu = workload.cluster.gpu
    apart = [it for it in workload.passes() if _pairs_rows(it.model, it.engine)]
    if not apart or gpu.is_ascend or not gpu.bfloat16:
        return None
    proposal = _by_sequence(workload)
    if not case.pays(proposal):
        return None
    last = apart[-1]  # of the actor's passes its update
    message = _(
        "PyTorch's attention computes all pairs of tokens of a row, FlashAttention those of each sequence"
    )
    if any(it.engine.attention is Attention.EAGER_ROWS for it in apart):
        message = _(
            "eager attention computes all pairs of tokens of a row and writes them out for every head, "
            "FlashAttention those of each sequence, and none of them"
        )
    brought = all(it.engine.flash_brought for it in apart)
    return Finding(
        rule=RULE if brought else _WITH_PACKAGE,
        message=message,
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=last.phase,
        proposal=proposal,
    )


def _pairs_rows(model: ModelShape, engine: Engine) -> bool:
    """Whether rows are masked that FlashAttention could do without a mask, where a key may ask for it."""
    runs = model.head_dim <= _MOST_OF_A_HEAD and not model.attention_sinks and model.indexer is None
    masked = engine.attention in (Attention.MASKED_ROWS, Attention.EAGER_ROWS) and engine.attention_settable
    return runs and masked and engine.compute_dtype.bytes == _BYTES


def _by_sequence(workload: Workload) -> Workload:
    """The workload with FlashAttention in the roles that lack it; the critic has a model of its own."""

    def of(model: ModelShape, engine: Engine) -> Engine:
        masked = _pairs_rows(model, engine)
        return replace(engine, attention=Attention.SEQUENCES, reads_positions=True) if masked else engine

    changed = workload.with_actor(engine=of(workload.model, workload.actor.engine))
    reference, critic = workload.reference, workload.critic
    if reference is not None:
        changed = changed.with_reference(engine=of(workload.model, reference.engine))
    if critic is not None:
        changed = changed.with_critic(engine=of(critic.model, critic.engine))
    return changed
