"""Dynamic context parallelism with what it does not support

What it checks
--------------
``megatron.dynamic_context_parallel=True`` without ``max_seqlen_per_dp_cp_rank``, without packed sequences, with ``pad_to_length``, with virtual pipeline stages, or where an odd number of ranks share data and context.
An override is given where one value puts it right.

Why it matters
--------------
verl raises an error while it builds the configuration or the model.
0.8.0 asserts ``max_seqlen_per_dp_cp_rank`` alone.

When it does not apply
----------------------
Without dynamic context parallelism.

Sources
-------
verl 0.9.1 ``workers/config/engine.py`` (``McoreEngineConfig.__post_init__``), ``workers/engine/megatron/transformer_impl.py:103-124``; 0.8.0 ``workers/engine/megatron/transformer_impl.py:144-152``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, shards_with_fsdp
from tuner.workload import Workload

RULE = Rule(
    code="CFG159",
    name="dynamic-context-refused",
    summary=N_("dynamic context parallelism with what it does not support"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

_SINCE = Releases(since="0.8.0")
_LOOKS_CLOSER = Releases(since="0.9.0")  # before, at the length per rank only

GUARDS = (CodeGuard(words="dynamic_context_parallel", releases=_SINCE),)

_SECTION = f"{ACTOR}.megatron"
_SWITCH = f"{_SECTION}.dynamic_context_parallel"

Problem = tuple[str, str, tuple[object, ...]]


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per thing that is not supported."""
    if version not in _SINCE or shards_with_fsdp(workload) or not settings.flag(_SWITCH):
        return
    for key, what, remedy in _problems(settings, workload, version):
        yield report(
            RULE,
            settings,
            _("{switch}=True {what}: {release} raises an error").format(
                switch=_SWITCH, what=what, release=workload.release
            ),
            keys=[key, _SWITCH],
            overrides=[assign(settings, key, value) for value in remedy],
        )


def _problems(settings: Settings, workload: Workload, version: str) -> Iterator[Problem]:
    tokens, padded = f"{_SECTION}.max_seqlen_per_dp_cp_rank", f"{_SECTION}.pad_to_length"
    virtual = f"{_SECTION}.virtual_pipeline_model_parallel_size"
    engine = workload.actor.engine
    if not settings.integer(tokens):
        yield tokens, _("without {tokens}").format(tokens=tokens), (workload.batch.sequence_tokens,)
    if version not in _LOOKS_CLOSER:
        return
    if not engine.packed:
        yield f"{_SECTION}.use_remove_padding", _("without packed sequences"), ()
    if settings.flag(padded):
        yield padded, _("with {padded}=True").format(padded=padded), (False,)
    if engine.parallel.virtual_pipeline > 1:
        yield (
            virtual,
            _("with {virtual}={virtual_pipeline}").format(
                virtual=virtual, virtual_pipeline=engine.parallel.virtual_pipeline
            ),
            ("null",),
        )
    ranks = engine.parallel.data * engine.parallel.context
    if ranks % 2:
        yield (
            _SWITCH,
            _("with {ranks} ranks that share data and context, an odd number").format(ranks=ranks),
            (False,),
        )
