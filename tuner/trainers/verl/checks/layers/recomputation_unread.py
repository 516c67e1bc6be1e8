"""A setting of recomputation that Megatron does not read

What it checks
--------------
``recompute_method``, ``recompute_num_layers`` and ``recompute_modules`` without ``recompute_granularity``, ``recompute_method`` with ``selective``, and ``recompute_modules`` with ``full``.
``enable_gradient_checkpointing=True`` while nothing is recomputed: in 0.4 without a granularity beside it, later in any case.
Where nothing is recomputed the override recomputes whole layers, or the modules that are named.

Why it matters
--------------
Megatron recomputes nothing unless ``recompute_granularity`` says what.
The other keys, and verl's own switch, give no error and no warning, and the activations of all layers stay on the card.

When it does not apply
----------------------
FSDP, which reads the switch.
A switch that has the release's own value is silent, so that a composed configuration, which spells out every key, is not reported.

Sources
-------
Megatron-Core ``transformer/transformer_block.py`` (``forward``), ``transformer/transformer_layer.py``.
verl 0.4.1 ``single_controller/base/megatron/worker.py:95-99``: a granularity of null is set as it is.
verl 0.5.0 to 0.7.1 ``workers/megatron_workers.py``, later ones ``workers/engine/megatron/transformer_impl.py``: no reader of the switch.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.override_syntax import override_value
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.recomputation import Recomputation, recomputations
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import changed
from tuner.workload import Workload

RULE = Rule(
    code="CFG168",
    name="recomputation-unread",
    summary=N_("a setting of recomputation that Megatron does not read"),
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per model with all the keys of its that do nothing."""
    for recomputation in recomputations(settings, workload, version):
        granularity = settings.get(recomputation.granularity)
        dead = [key for key in _unread(recomputation, granularity) if changed(settings, key)]
        if not dead:
            continue
        values = ", ".join(f"{key}={override_value(settings.get(key))}" for key in dead)
        stands = "null" if granularity is None else granularity
        yield report(
            RULE,
            settings,
            _("{said}: {release} does not read it while {granularity} is {value}").format(
                said=values, release=workload.release, granularity=recomputation.granularity, value=stands
            ),
            keys=[*dead, recomputation.granularity],
            overrides=() if granularity is not None else _overrides(settings, recomputation, dead),
        )


def _unread(recomputation: Recomputation, granularity: object) -> list[str]:
    """The keys that do nothing with this granularity."""
    modules = [] if recomputation.modules is None else [recomputation.modules]
    match granularity:
        case None:
            return [recomputation.switch, recomputation.method, recomputation.layers, *modules]
        case "full":
            return modules
        case _:
            return [recomputation.method]


def _overrides(settings: Settings, recomputation: Recomputation, dead: list[str]) -> list[str]:
    """What recomputes what was meant: modules where they alone are named, else whole layers."""
    if dead == [recomputation.modules]:
        return [assign(settings, recomputation.granularity, "selective")]
    wanted = {
        recomputation.granularity: "full",
        recomputation.method: settings.get(recomputation.method) or "uniform",
        recomputation.layers: settings.get(recomputation.layers) or 1,
    }
    return [assign(settings, key, value) for key, value in wanted.items() if settings.get(key) != value]
