"""More GPUs of a node than the launch shows to Ray

What it checks
--------------
``trainer.n_gpus_per_node`` against the devices of ``CUDA_VISIBLE_DEVICES``, or of its like, that a script exports or puts in front of the program, and against ``ray_kwargs.ray_init.num_gpus``, for a job of one node.
The override asks for as many GPUs as there are to see, where nothing else refuses the job on these, such as a batch that does not divide by them; the other way is a line of the script that shows more of them.
In a copy of verl whose program makes an actor of its own with GPUs, such as a judge of rewards, these count as well, and there is no override: the workers' batches may not divide by what is left.

Why it matters
--------------
The program starts Ray by itself, and Ray counts the devices that its variable shows.
verl compares: where the GPUs are fewer than the job wants it raises ``ValueError``, and a copy from before that comparison waits for them for ever.

When it does not apply
----------------------
A script that starts Ray by itself (``ray start``), hands the job to one (``ray job submit``), or names its address (``RAY_ADDRESS``, ``ray_kwargs.ray_init.address``): that one has the devices of its own start.
Jobs of several nodes, for which Ray has to run before.
``ray_kwargs.ray_init.num_gpus`` of a job for another device (``trainer.device``): Ray has a resource of its own for that.
Devices that only a run would tell.

Sources
-------
Ray documentation, accelerator support: ``CUDA_VISIBLE_DEVICES`` limits what Ray detects.
verl 0.4.1 ``trainer/ppo/ray_trainer.py:108-117``, 0.9.1 ``single_controller/ray/base.py:226-242`` (``_check_resource_available``) and line 160, where ``ray.get`` waits for the placement groups.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tuner.counted import counted
from tuner.errors import TunerError
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.inputs.user_input import Count
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.started_program import FurtherGpus, further_gpus
from tuner.trainers.verl.read import read
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

RULE = Rule(
    code="CFG201",
    name="gpus-not-shown",
    summary=N_("more GPUs of a node than the launch shows to Ray"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

GUARDS = (CodeGuard(words="get_placement_groups ready pgs ray get", fails=True, unless="ray init address"),)

_PER_NODE, _NODES = "trainer.n_gpus_per_node", "trainer.nnodes"
_NUMBER = "ray_kwargs.ray_init.num_gpus"
_DEVICE = "trainer.device"
_HANDED_ON = Releases(since="0.6.0")  # with all of ``ray_init``: ``trainer/main_ppo.py:61-66``
_ADDRESSES = ("ray_kwargs.ray_init.address", "ray_init.address")


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where a node of the job has more GPUs than its Ray sees."""
    yield from _findings(settings, workload, version, None)


def check_of_copy(
    settings: Settings, workload: Workload, version: str, code: "TrainerCode"
) -> Iterator[Finding]:
    """Findings of the check, with the actors of a copy's program."""
    yield from _findings(settings, workload, version, code)


def _findings(
    settings: Settings, workload: Workload, version: str, code: "TrainerCode | None"
) -> Iterator[Finding]:
    shown = _shown(settings, version)
    asked = settings.integer(_PER_NODE, default=8)
    if shown is None or settings.integer(_NODES, default=1) != 1:
        return
    if any(settings.get(key) is not None for key in _ADDRESSES):
        return
    further = FurtherGpus() if code is None else further_gpus(settings, code)
    wanted = asked + further.count
    if wanted <= shown.value:
        return
    message = _(
        "{key}={asked} and {text} ({place}): the Ray that the program starts sees {shown}, and {release} "
        "wants {wanted}"
    ).format(
        key=_PER_NODE,
        asked=asked,
        text=shown.text,
        place=shown.location,
        shown=counted(shown.value, "GPU"),
        release=workload.release,
        wanted=wanted,
    )
    fewer = not further.count and _starts_on(shown.value, settings, workload, version, code)
    yield report(
        RULE,
        settings,
        message,
        keys=[_PER_NODE],
        overrides=[assign(settings, _PER_NODE, shown.value)] if fewer else (),
        notes=_notes(shown, wanted, further, fewer=fewer),
    )


def _starts_on(
    gpus: int, settings: Settings, workload: Workload, version: str, code: "TrainerCode | None"
) -> bool:
    """Whether the other checks refuse no more of the job on so many GPUs than as it is, in the same words."""
    from tuner.trainers.verl import checks  # which imports this module

    after = settings.with_value(_PER_NODE, gpus)
    try:
        job = read(
            after,
            version=workload.release.version,
            model=workload.model,
            critic_model=None if workload.critic is None else workload.critic.model,
            cluster=replace(workload.cluster, nodes=1, gpus_per_node=gpus),
            rollout_engine_version=workload.generator.engine_version,
            lengths=workload.batch.lengths,
        )
        then = checks.refusals_beside(RULE, after, job, version, code)
    except (TunerError, ValueError):  # parallel sizes that so few GPUs do not have
        return False
    return then <= checks.refusals_beside(RULE, settings, workload, version, code)


def _notes(shown: Count, wanted: int, further: FurtherGpus, *, fewer: bool) -> Iterator[str]:
    if further.count:
        beside = _("{actors} takes {gpus} beside the workers.")
        yield beside.format(actors=further, gpus=counted(further.count, "GPU"))
    show = _("Or show {wanted} devices by {name}.") if fewer else _("Show {wanted} devices by {name}.")
    yield show.format(wanted=wanted, name=shown.text.partition("=")[0])
    yield _("A Ray that runs on the machine before the script does has the devices of its own start.")


def _shown(settings: Settings, version: str) -> Count | None:
    """The GPUs that Ray is told of, the fewest where two say so; None where nothing says."""
    number, origin = settings.get(_NUMBER), settings.origin(_NUMBER)
    place = None if origin is None else origin.location
    if version not in _HANDED_ON or not isinstance(number, int) or place is None:
        return settings.shown_gpus
    # other devices are no GPUs to Ray: a launch for them may well name none
    if settings.get(_DEVICE) not in (None, "cuda"):
        return settings.shown_gpus
    told = Count(value=number, text=f"{_NUMBER}={number}", location=place)
    shown = settings.shown_gpus
    return told if shown is None or told.value < shown.value else shown
