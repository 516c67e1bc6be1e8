"""Entropy chunks without packed sequences

What it checks
--------------
``entropy_from_logits_with_chunking`` of the actor on while ``model.use_remove_padding`` is off.
The override packs the sequences, which saves more than the chunks.

Why it matters
--------------
The path for padded sequences calls the plain entropy function: neither chunks nor ``torch.compile`` apply, and the entropy is computed over the padding as well.

When it does not apply
----------------------
Under Megatron.

Sources
-------
verl 0.4.1 ``workers/actor/dp_actor.py:268``, 0.7.1 line 373, 0.8.0 ``workers/engine/fsdp/transformer_impl.py:1200``, 0.9.1 line 1491.
verl #7582.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import MODEL, shards_with_fsdp
from tuner.trainers.verl.keys import key
from tuner.workload import Phase, Workload

RULE = Rule(
    code="CFG138",
    name="entropy-chunking-unpacked",
    summary=N_("entropy chunks that the path for padded sequences does not use"),
    severity=Severity.ERROR,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)

_PACKED = f"{MODEL}.use_remove_padding"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for chunks over padded sequences."""
    name = key("actor.entropy_chunking", version)
    if (
        name is None
        or not settings.flag(name)
        or not shards_with_fsdp(workload)
        or workload.actor.engine.packed
    ):
        return
    yield report(
        RULE,
        settings,
        _("{name}=True does nothing with {packed}=False: {release} chunks packed sequences only").format(
            name=name, packed=_PACKED, release=workload.release
        ),
        keys=[name, _PACKED],
        overrides=[assign(settings, _PACKED, True)],
        phase=Phase.OLD_LOG_PROB,
    )
