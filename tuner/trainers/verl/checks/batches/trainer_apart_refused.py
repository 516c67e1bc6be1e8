"""What a trainer that generates on GPUs of its own refuses

What it checks
--------------
A launch of the one-step-off-policy or of the fully asynchronous trainer, told by its configuration or by its keys: ``hybrid_engine``, the rollout's mode, and, fully asynchronous, ``data.train_batch_size``, ``data.gen_batch_size``, the engine's log-probabilities, staleness and the steps between two syncs.
The override is the value that the trainer asserts.

Why it matters
--------------
Both assert when they are made, after the workers have started.
Their own configurations leave the PPO trainer's values in place for the first of these keys, so that every launch has to set them.

When it does not apply
----------------------
The PPO trainer, and ``separate_async`` of the V1 trainer, which another check judges.
The rollout's mode of the one-step trainer before 0.7.0.

Sources
-------
verl 0.6.1 and 0.7.0 ``recipe/fully_async_policy/fully_async_rollouter.py``, ``recipe/one_step_off_policy/ray_trainer.py``.
verl 0.7.1 ``experimental/fully_async_policy/fully_async_rollouter.py:66-72, 348, 391``, ``fully_async_main.py:201``, ``experimental/one_step_off_policy/ray_trainer.py:87, 180``; 0.9.1 ``fully_async_rollouter.py:350-356, 733, 842``, ``one_step_off_policy/ray_trainer.py:88, 180``.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.inputs.tree import dotted
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.trainers.verl.defaults import CONFIGS, read_defaults
from tuner.trainers.verl.recipes import started_by
from tuner.trainers.verl.recipes_apart import APART, FULLY_ASYNC
from tuner.trainers.verl.releases import PREVIEWS
from tuner.workload import Workload

RULE = Rule(
    code="CFG172",
    name="trainer-apart-refused",
    summary=N_("what a trainer that generates on GPUs of its own refuses"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

_THERE = Releases(since="0.6.0")
_PACKAGED = Releases(since="0.8.0")  # before, in a recipe or in files that the wheel leaves out

GUARDS = (
    *(
        CodeGuard(
            words=words,
            key=f".{words.split()[0]}",
            file=file,
            around=trainer,
            releases=_THERE,
            packaged=_PACKAGED,
        )
        for words in ("hybrid_engine", "mode async")
        for file, trainer in (
            ("one_step_off_policy", "OneStepOffRayTrainer"),
            ("fully_async", "FullyAsyncRollouter"),
        )
    ),
    *(
        CodeGuard(words=f"FullyAsyncRollouter {name}", key=f".{name}", releases=_THERE, packaged=_PACKAGED)
        for name in (
            *("train_batch_size", "gen_batch_size", "calculate_log_probs", "staleness_threshold"),
            "trigger_parameter_sync_step",
        )
    ),
    CodeGuard(
        words="use_trainer_do_validate",
        key=".use_trainer_do_validate",
        releases=Releases(since="0.7.1", until="0.8.0"),
        packaged=_PACKAGED,
    ),
)


class _Asserted(Struct, frozen=True, kw_only=True):
    """A key, what holds for its value, and a value for which it does."""

    key: str
    holds: Callable[[Any], bool]
    value: object
    fully: bool = True  # of the fully asynchronous trainer alone
    releases: Releases = Releases()


def _at_least(least: int) -> Callable[[Any], bool]:
    """Whether a value is a number that is large enough; comparing text with one ends verl too."""
    return lambda it: isinstance(it, (int, float)) and it >= least


_ASYNC = "async_training"
_ASSERTED = (
    _Asserted(key="actor_rollout_ref.hybrid_engine", holds=lambda it: not it, value=False, fully=False),
    _Asserted(
        key=f"{ROLLOUT}.mode",
        holds=lambda it: it == "async",
        value="async",
        fully=False,
        releases=Releases(since="0.7.0"),
    ),
    _Asserted(key="data.train_batch_size", holds=lambda it: it == 0, value=0),
    _Asserted(key="data.gen_batch_size", holds=lambda it: it == 1, value=1),
    _Asserted(key=f"{ROLLOUT}.calculate_log_probs", holds=bool, value=True),
    _Asserted(key=f"{_ASYNC}.staleness_threshold", holds=_at_least(0), value=0.1),
    _Asserted(key=f"{_ASYNC}.trigger_parameter_sync_step", holds=_at_least(1), value=4),
    _Asserted(
        key=f"{_ASYNC}.use_trainer_do_validate",
        holds=lambda it: it is False,
        value=False,
        releases=Releases(since="0.7.1", until="0.8.0"),
    ),
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per assertion that fails; a project's own trainer asserts none of it."""
    if settings.program is not None:
        return
    release = next((it for it, preview in PREVIEWS.items() if preview == version), version)
    recipe = started_by(settings.defaults, dict(read_defaults(release, CONFIGS[0]).tree), release)
    if recipe is None or recipe[0] not in APART:
        return
    fully = recipe[0] in FULLY_ASYNC
    telling = [key for key in map(dotted, recipe[1]) if settings.is_set(key)][:1]
    for asserted in _ASSERTED:
        key = asserted.key
        if version not in asserted.releases or (asserted.fully and not fully):
            continue
        if not asserted.holds(settings.get(key)):
            yield report(
                RULE,
                settings,
                _("{key}={value}: {module} of {release} asserts otherwise when it starts").format(
                    key=key,
                    value=settings.get(key),
                    module=settings.started or recipe[0].modules[0],
                    release=workload.release,
                ),
                keys=[key, *telling],
                overrides=[assign(settings, key, asserted.value)],
            )
