"""A teacher that this release refuses

What it checks
--------------
With ``distillation.enabled=True``: a teacher without ``model_path``, replicas that do not divide or fill the teacher's pool, an engine length without room for prompt, response and one token more, and a loss that cannot be trained so.
An override is given where one value follows from the others.

Why it matters
--------------
The configuration of the distillation raises ``ValueError`` while the trainer starts.

When it does not apply
----------------------
Jobs without distillation; an empty pool is another check's.

Sources
-------
verl 0.8.0 and 0.9.1 ``workers/config/distillation.py`` (``DistillationConfig``, ``DistillationTeacherModelConfig``, ``DistillationLossConfig``).
"""

from collections.abc import Iterator

from tuner.counted import counted
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.workload import Workload

RULE = Rule(
    code="CFG151",
    name="teacher-refused",
    summary=N_("a teacher that this release refuses"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

_DISTILS = Releases(since="0.8.0")

GUARDS = (CodeGuard(words="DistillationTeacherModelConfig", releases=_DISTILS),)
_TEACHERS = "distillation.teacher_models"
_LOSS = "distillation.distillation_loss"

Problem = tuple[str, str, tuple[object, ...]]
"""A key, what is wrong with it, and the value that puts it right, if one does."""


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per thing that is refused."""
    if version not in _DISTILS or not settings.flag("distillation.enabled"):
        return
    names = dict.fromkeys(key.split(".")[0] for key in settings.section(_TEACHERS))
    if len(names) > 1:
        names.pop("teacher_model", None)
    problems = [*_loss(settings), *_pool(settings, list(names))]
    for name in names:
        problems += _teacher(f"{_TEACHERS}.{name}", settings, workload)
    for key, what, remedy in problems:
        yield report(
            RULE,
            settings,
            _("{what}: {release} raises ValueError").format(what=what, release=workload.release),
            keys=[key, "distillation.enabled"],
            overrides=[assign(settings, key, value) for value in remedy],
        )


def _teacher(section: str, settings: Settings, workload: Workload) -> Iterator[Problem]:
    if settings.get(f"{section}.model_path") is None:
        yield f"{section}.model_path", _("{section}.model_path is not set").format(section=section), ()
    key = f"{section}.inference.max_model_len"
    length, needed = settings.integer(key), workload.batch.sequence_tokens + 1
    if length is not None and length < needed:
        yield (
            key,
            _("{key}={length} has no room for prompt, response and one token, {needed} together").format(
                key=key, length=length, needed=needed
            ),
            (needed,),
        )


def _pool(settings: Settings, names: list[str]) -> Iterator[Problem]:
    """Whether the replicas of all teachers fill the pool; of a single one, whether they divide it."""
    gpus = settings.integer("distillation.n_gpus_per_node", default=0) * settings.integer(
        "distillation.nnodes", default=0
    )
    if not gpus:
        return
    replicas = {name: _replica_gpus(f"{_TEACHERS}.{name}.inference", settings) for name in names}
    if len(names) == 1:
        key = f"{_TEACHERS}.{names[0]}.inference.tensor_model_parallel_size"
        if gpus % replicas[names[0]]:
            yield (
                key,
                _("replicas of {replica_gpus} do not divide the teacher's {pool_gpus}").format(
                    replica_gpus=counted(replicas[names[0]], "GPU"), pool_gpus=counted(gpus, "GPU")
                ),
                (),
            )
        return
    counts = {name: settings.integer(f"{_TEACHERS}.{name}.num_replicas", default=0) for name in names}
    taken = sum(counts[name] * replicas[name] for name in names)
    if taken != gpus:
        key = f"{_TEACHERS}.{names[0]}.num_replicas"
        yield (
            key,
            _("the teachers' replicas take {taken} of the {gpus} in their pool").format(
                taken=counted(taken, "GPU"), gpus=gpus
            ),
            (),
        )


def _replica_gpus(section: str, settings: Settings) -> int:
    sizes = {"tensor_model_parallel_size": 2, "data_parallel_size": 1, "pipeline_model_parallel_size": 1}
    tensor, data, pipeline = (
        settings.integer(f"{section}.{name}", default=size, minimum=1) for name, size in sizes.items()
    )
    return tensor * data * pipeline


def _loss(settings: Settings) -> Iterator[Problem]:
    mode, gradient = f"{_LOSS}.loss_mode", f"{_LOSS}.use_policy_gradient"
    if settings.text(mode) == "k1" and not settings.flag(gradient):
        yield (
            gradient,
            _("{mode}=k1 without {gradient} has no gradient of the teacher").format(
                mode=mode, gradient=gradient
            ),
            (True,),
        )
    policy = f"{_LOSS}.policy_loss_mode"
    if settings.text(policy, default="vanilla") != "vanilla":
        yield (
            policy,
            _("{policy}={value} is not vanilla").format(policy=policy, value=settings.text(policy)),
            ("vanilla",),
        )
