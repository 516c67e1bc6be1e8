"""No micro-batch size with static batching

What it checks
--------------
Static batching (``use_dynamic_bsz=False``, the default) with no micro-batch size for the actor, the rollout's log-probabilities, the reference or, where there are such, the critic and a reward model of the trainer.
The override takes one sequence per GPU, which always fits best; advice on the memory then says how far it can be raised.

Why it matters
--------------
There is no default size: verl refuses to start.

When it does not apply
----------------------
Dynamic batching needs no micro-batch size.
A global micro-batch size satisfies this check; another check says what becomes of it.

Sources
-------
verl 0.9.1 ``workers/config/actor.py:199-210`` and ``workers/config/critic.py:107-108`` at construction, ``utils/config.py:131-182`` for rollout and reference, ``workers/engine_workers.py:632-637``.
verl 0.4.1 ``trainer/ppo/ray_trainer.py:381-425``; reward model: 0.6.1 ``utils/config.py`` (``validate_config``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC, REFERENCE, ROLLOUT
from tuner.trainers.verl.recipes import without_estimator
from tuner.workload import Workload

RULE = Rule(
    code="CFG104",
    name="micro-batch-missing",
    summary=N_("static batching without a micro-batch size"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

GUARDS = (CodeGuard(words="mbs mbs_per_gpu"),)

_SCORES = Releases(until="0.7.0")  # the trainer has a worker for the reward model, later an engine
_REWARD = "reward_model"
_ESTIMATOR = "algorithm.adv_estimator"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding with every size that is missing."""
    lacking = [
        (key, dynamic)
        for key, dynamic in _sizes(settings, workload, version)
        if _lacks(settings, key, dynamic)
    ]
    missing = [key for key, _dynamic in lacking]
    switches = dict.fromkeys(dynamic for _key, dynamic in lacking)
    if missing:
        yield report(
            RULE,
            settings,
            _message(missing, settings, workload, version),
            keys=[*missing, *switches],
            overrides=[assign(settings, key, 1) for key in missing],
        )


def _sizes(settings: Settings, workload: Workload, version: str) -> Iterator[tuple[str, str]]:
    """Each per-GPU size with its switch for dynamic batching; verl asks the actor's for the first three."""
    dynamic = f"{ACTOR}.use_dynamic_bsz"
    yield f"{ACTOR}.ppo_micro_batch_size_per_gpu", dynamic
    yield f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu", dynamic
    if workload.reference is not None:
        yield f"{REFERENCE}.log_prob_micro_batch_size_per_gpu", dynamic
    if workload.critic is not None:
        yield f"{CRITIC}.ppo_micro_batch_size_per_gpu", f"{CRITIC}.use_dynamic_bsz"
    if version in _SCORES and settings.flag(f"{_REWARD}.enable"):
        yield f"{_REWARD}.micro_batch_size_per_gpu", f"{_REWARD}.use_dynamic_bsz"


def _message(missing: list[str], settings: Settings, workload: Workload, version: str) -> str:
    """What is missing, and where a critic comes from that nobody asked for.

    A recipe without a critic says so in its own configuration, and a launch for it by a name: its keys tell
    nothing.
    """
    names = ", ".join(missing)
    if not any(key.startswith(f"{CRITIC}.") for key in missing) or settings.is_set(_ESTIMATOR):
        return _(
            "{missing} not set with static batching: {release} refuses to start without a micro-batch size"
        ).format(missing=names, release=workload.release)
    message = _(
        "{missing} not set with static batching, and a critic is trained where {key}={estimator}, the "
        "default: {release} refuses to start without a micro-batch size"
    ).format(missing=names, key=_ESTIMATOR, estimator=settings.get(_ESTIMATOR), release=workload.release)
    configs = [f"--config-name={recipe.configs[0]}" for recipe in without_estimator(version)]
    if not configs:
        return message
    return _("{message}; a recipe that trains no critic is told by {configs}").format(
        message=message, configs=_(" or ").join(configs)
    )


def _lacks(settings: Settings, key: str, dynamic: str) -> bool:
    if settings.flag(dynamic):
        return False
    return settings.get(key) is None and settings.get(key.removesuffix("_per_gpu")) is None
