"""Batch settings of the critic that are not read

What it checks
--------------
With a critic, the keys of its batches that this release ignores, once they differ from their default: ``use_dynamic_bsz``, ``ppo_micro_batch_size_per_gpu``, ``forward_micro_batch_size_per_gpu``, ``forward_max_token_len_per_gpu`` and, under the V1 trainer, ``ppo_max_token_len_per_gpu``.
The override sets the key that is read; a static size becomes as many tokens as it would have held.

Why it matters
--------------
From 0.8.0 on the critic always batches dynamically: nothing copies the critic's static sizes to its engine, whose own default is dynamic.
The V1 trainer, the default from 0.9.0 on, takes ``ppo_infer_max_token_len_per_gpu``, which is in no YAML file and is 32768, as the budget of both passes.
A critic that was made small to fit in memory therefore trains with 32768 tokens.

When it does not apply
----------------------
Up to 0.7.1, where the workers read all of them.
A static size that holds just as many tokens as the budget that is read.
With ``trainer.use_v1=False`` and in 0.8.0 the update's budget ``ppo_max_token_len_per_gpu`` is read.

Sources
-------
verl 0.9.1 ``trainer/ppo/v1/trainer_base.py:267-268``; ``trainer/ppo/ray_trainer.py:808-811``, 0.8.0 lines 812-814; ``workers/engine_workers.py:354-356`` (0.9.1) reads the engine's own fields, whose defaults are in ``workers/config/engine.py``.
verl #7462, #7465.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import CRITIC, changed
from tuner.trainers.verl.releases import ENGINE_PREVIEW
from tuner.workload import Critic, Phase, Workload

RULE = Rule(
    code="CFG107",
    name="critic-budget-ignored",
    summary=N_("batch settings of the critic that are not read"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
)

_DYNAMIC_ONLY = Releases(since=ENGINE_PREVIEW)
_V1 = Releases(since="0.9.0")
_INFER = f"{CRITIC}.ppo_infer_max_token_len_per_gpu"
_UPDATE = f"{CRITIC}.ppo_max_token_len_per_gpu"
_FORWARD = f"{CRITIC}.forward_max_token_len_per_gpu"
_STATIC = tuple(f"{CRITIC}.{name}_micro_batch_size_per_gpu" for name in ("ppo", "forward"))
_DYNAMIC = f"{CRITIC}.use_dynamic_bsz"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for budgets that are not read, and one for static sizes."""
    critic = workload.critic
    if version not in _DYNAMIC_ONLY or critic is None or not critic.update.batching.dynamic:
        return
    v1 = version in _V1 and settings.flag("trainer.use_v1", default=True)
    budgets = [key for key in ((_UPDATE, _FORWARD) if v1 else (_FORWARD,)) if _ignored(settings, key)]
    if budgets:
        wanted = assign(settings, _INFER, settings.integer(budgets[0], minimum=1))
        yield _finding(budgets, _INFER, wanted, settings, workload, critic)
    elif not settings.flag(_DYNAMIC):
        live = _INFER if v1 else _UPDATE
        sizes = [key for key in _STATIC if changed(settings, key)]
        tokens = (settings.integer(sizes[0], minimum=1) or 1) * workload.batch.sequence_tokens if sizes else 0
        if sizes and not settings.is_set(live) and tokens != critic.update.batching.token_budget:
            yield _finding(
                [*sizes, _DYNAMIC], live, assign(settings, live, tokens), settings, workload, critic
            )


def _ignored(settings: Settings, key: str) -> bool:
    """Whether a budget was asked for that the one that is read does not have."""
    return changed(settings, key) and settings.get(key) != settings.get(_INFER)


def _finding(
    ignored: list[str], live: str, override: str, settings: Settings, workload: Workload, critic: Critic
) -> Finding:
    values = ", ".join(f"{key}={settings.get(key)}" for key in ignored)
    return report(
        RULE,
        settings,
        _(
            "{values} not read: the critic of {release} trains with dynamic batches of {token_budget} tokens"
        ).format(values=values, release=workload.release, token_budget=critic.update.batching.token_budget),
        keys=[*ignored, live],
        overrides=[override],
        phase=Phase.UPDATE_CRITIC,
    )
