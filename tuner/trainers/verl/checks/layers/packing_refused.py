"""Packing of a model whose type the workers of a copy do not pack

What it checks
--------------
``model.use_remove_padding=True`` of the actor or the critic, in a copy of verl whose workers hold a list of the types of models that they pack, and the model's is not in it.
The override pads instead.

Why it matters
--------------
The worker raises ``ValueError`` before it has loaded the model.
The list, ``_REOVEPAD_MODELS`` in ``models/registry.py``, has llama, mistral, gemma and qwen2; Qwen2.5-VL, Qwen3 and Gemma 3 are types of their own.

When it does not apply
----------------------
Releases from 0.2 on, which hold no list.
A copy that has put the type into its list.

Sources
-------
Search-R1 at commit a14dc3a, on verl 0.1: ``verl/models/registry.py:24-32`` (``check_model_support_rmpad``), ``verl/workers/fsdp_workers.py:141-143`` (actor), ``608-609`` (critic).
verl 0.3.0.post1 and later: no such function in the wheel.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import CRITIC, MODEL
from tuner.trainers.verl.packed_models import ASKS, packed_models
from tuner.workload import Workload

RULE = Rule(
    code="CFG189",
    name="packing-refused",
    summary=N_("packed sequences of a model whose type this copy of the trainer does not pack"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

_WHEELS = Releases(until="0.3.0.post1")  # that have it: none that is bundled, but copies are read as these
GUARDS = (CodeGuard(words=ASKS, packaged=_WHEELS),)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding for each model that is packed and whose type is not in the list."""
    listed = packed_models(settings)
    if listed is None:
        return
    models = {MODEL: workload.model}
    if workload.critic is not None:
        models[f"{CRITIC}.model"] = workload.critic.model
    for section, model in models.items():
        key = f"{section}.use_remove_padding"
        if settings.flag(key) and model.architecture not in listed:
            yield report(
                RULE,
                settings,
                _(
                    "{key}=True: the workers of {release} pack {listed} only, and stop for {model_type}"
                ).format(
                    key=key,
                    release=workload.release,
                    listed=", ".join(listed),
                    model_type=model.architecture,
                ),
                keys=[key],
                overrides=[assign(settings, key, False)],
            )
