"""Recomputation that Megatron refuses

What it checks
--------------
``recompute_granularity=full`` without ``recompute_method`` or ``recompute_num_layers``, and ``selective`` with ``recompute_num_layers``.
In 0.4 the same of ``gradient_checkpointing_kwargs``, where ``enable_gradient_checkpointing`` switches them on.
The override recomputes every layer by itself, or takes the number away.

Why it matters
--------------
Megatron checks the three when its configuration is made, and raises an error before the first step.
What 0.4 sets afterwards is not checked: there the first update fails.

When it does not apply
----------------------
FSDP, which has one switch for all layers.

Sources
-------
Megatron-Core ``transformer/transformer_config.py`` (``__post_init__``), ``transformer/transformer_block.py`` (``_checkpointed_forward``).
verl 0.4.1 ``single_controller/base/megatron/worker.py:93-103``, 0.9.1 ``workers/engine/megatron/transformer_impl.py:371-411``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.recomputation import Recomputation, recomputations
from tuner.trainers.verl.checks.report import assign, report
from tuner.workload import Workload

RULE = Rule(
    code="CFG167",
    name="recomputation-refused",
    summary=N_("recomputation that Megatron refuses"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

REFUSED_BY = RefusedBy.MEGATRON


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per model with what it lacks or has too much of."""
    for recomputation in recomputations(settings, workload, version):
        wrong = _wrong(settings, recomputation)
        if wrong is None:
            continue
        what, changes = wrong
        yield report(
            RULE,
            settings,
            _("{granularity}={value} {what}: Megatron under {release} raises an error").format(
                granularity=recomputation.granularity,
                value=settings.get(recomputation.granularity),
                what=what,
                release=workload.release,
            ),
            keys=[recomputation.granularity, *changes],
            overrides=[assign(settings, key, value) for key, value in changes.items()],
        )


def _wrong(settings: Settings, recomputation: Recomputation) -> tuple[str, dict[str, object]] | None:
    """What is wrong with a model's recomputation in words, and the values that put it right."""
    granularity, count = settings.get(recomputation.granularity), settings.get(recomputation.layers)
    if granularity == "full":
        needed = {recomputation.method: "uniform", recomputation.layers: 1}
        missing = {key: value for key, value in needed.items() if settings.get(key) is None}
        names = _(" and ").join(key.rpartition(".")[2] for key in missing)
        return (_("without {names}").format(names=names), dict(missing)) if missing else None
    if granularity == "selective" and count is not None and recomputation.checked:
        return _("with {name}={count}").format(name=recomputation.layers.rpartition(".")[2], count=count), {
            recomputation.layers: None
        }
    return None
