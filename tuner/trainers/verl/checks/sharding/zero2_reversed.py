"""Reshard after forward taken for ZeRO-2

What it checks
--------------
``reshard_after_forward=True`` written on the command line, where it is the default anyway.

Why it matters
--------------
verl's guide for Ascend recommends ZeRO-2 for models below 7B and writes ``reshard_after_forward=True`` for it.
It is the other way round: ``True`` frees each layer after its forward pass and is ZeRO-3, ``False`` keeps all layers gathered until the backward pass and is ZeRO-2.
``False`` costs two bytes per parameter on every GPU and saves one all-gather per micro-batch; other advice says whether it fits.

When it does not apply
----------------------
In a file, where the value may be one of many that were composed.

Sources
-------
verl 0.9.1 ``workers/engine/fsdp/utils.py:56-84``; ``docs/ascend_tutorial`` (``perf_tuning_on_ascend.rst``).
Zhao et al. 2023, PyTorch FSDP, arXiv:2304.11277.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Layer, Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC, REFERENCE
from tuner.workload import Workload

RULE = Rule(
    code="CFG139",
    name="zero2-reversed",
    summary=N_("reshard after forward set to its default, ZeRO-3"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)

_NAME = "reshard_after_forward"
_SECTIONS = (
    f"{ACTOR}.fsdp_config",
    f"{REFERENCE}.fsdp_config",
    f"{CRITIC}.model.fsdp_config",
    f"{CRITIC}.fsdp",
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per section where it was written as an override."""
    for section in _SECTIONS:
        key = f"{section}.{_NAME}"
        origin = settings.origin(key)
        if origin is not None and origin.layer is Layer.OVERRIDE and settings.flag(key):
            yield report(
                RULE,
                settings,
                _("{key}=True is the default of {release} and means ZeRO-3; ZeRO-2 is False").format(
                    key=key, release=workload.release
                ),
                keys=[key],
            )
