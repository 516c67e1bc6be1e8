"""A device of another vendor than the card's

What it checks
--------------
``trainer.device=npu`` where ``--gpu``, or the record of a run, names a card that is no Ascend.
There is no override: which of the two is meant, the device or the card, the launch does not say.

Why it matters
--------------
verl asks Ray for the resource ``NPU``, which no node with such cards offers: Ray waits for one, for ever, and nothing starts.
The release changes the key by itself towards ``npu`` alone, on a machine that has Ascend cards.

When it does not apply
----------------------
On Ascend cards, which are assumed where no option names a card.
From 0.9.0 on verl puts the device that it finds in place of the one that is set.

Sources
-------
verl 0.4.0 ``single_controller/ray/base.py:109-116``, 0.8.0 lines 138-145; 0.8.0 ``utils/device.py:157-175`` (``auto_set_device``), 0.9.0 lines 150-165.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import report
from tuner.workload import Workload

RULE = Rule(
    code="CFG193",
    name="device-of-other-vendor",
    summary=N_("a device of another vendor than the card's, for which Ray waits for ever"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

_WAITS = Releases(since="0.4.0", until="0.9.0")

GUARDS = (CodeGuard(words="get_placement_groups device_name npu NPU", fails=True, releases=_WAITS),)
_KEY = "trainer.device"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for Ascend's device on another card."""
    gpu = workload.cluster.gpu
    if version not in _WAITS or gpu.is_ascend or settings.get(_KEY) != "npu":
        return
    yield report(
        RULE,
        settings,
        _(
            "{key}=npu asks Ray for NPUs, and nodes with {gpu} have none: {release} waits for ever. "
            "--gpu ascend-910c judges it for the cards that it is written for"
        ).format(key=_KEY, gpu=gpu.name, release=workload.release),
        keys=[_KEY],
    )
