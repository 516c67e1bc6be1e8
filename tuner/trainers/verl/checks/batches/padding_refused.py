"""Padding that the engines of fine-tuning refuse

What it checks
--------------
``data.pad_mode`` of ``verl.trainer.sft_trainer``, which has to be ``no_padding``.

Why it matters
--------------
The data set pads sequences to ``data.max_length`` where it is asked to, and the engine stops at the first micro-batch of such ones.

When it does not apply
----------------------
``verl.trainer.fsdp_sft_trainer`` has no such key: its data sets pad always.

Sources
-------
verl 0.6.0 to 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``prepare_model_inputs``), ``workers/engine/megatron/transformer_impl.py`` (``prepare_model_inputs``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.programs import Program
from tuner.workload import Workload

RULE = Rule(
    code="CFG182",
    name="padding-refused",
    summary=N_("a padding of fine-tuning's sequences that its engine does not take"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

GUARDS = (CodeGuard(words="prepare_model_inputs pad_mode", releases=Releases(since="0.6.0")),)

PROGRAMS = (Program.SFT_ENGINE,)

_KEY = "data.pad_mode"
_TAKEN = "no_padding"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding for another mode."""
    mode = settings.get(_KEY)
    if mode not in (None, _TAKEN):
        yield report(
            RULE,
            settings,
            _("{key}={mode}: the engine of {release} takes {taken} only").format(
                key=_KEY, mode=mode, release=workload.release, taken=_TAKEN
            ),
            keys=[_KEY],
            overrides=[assign(settings, _KEY, _TAKEN)],
        )
