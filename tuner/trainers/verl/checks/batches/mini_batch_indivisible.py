"""A mini-batch that does not divide evenly

What it checks
--------------
The sequences of one mini-batch, ``ppo_mini_batch_size`` times ``rollout.n``, against the data-parallel ranks, and one rank's share against the micro-batch size where batches are static; for the actor and for the critic.
The override is the largest micro-batch size that divides the share, or the smallest larger mini-batch that divides evenly, or else the largest smaller one.
A batch that does not divide either is taken as its own check leaves it, so that the two overrides go together.

Why it matters
--------------
From 0.8.0 on the worker asserts both.
Up to 0.7.1 it asserts the second, even with dynamic batching when a size is set, and silently rounds the first down: the optimizer then takes smaller steps than the configuration says, and one more for the rest.

When it does not apply
----------------------
Data-parallel ranks are GPUs divided by the Ulysses size, or by tensor times pipeline times context parallelism under Megatron; the GPUs of a node are not asked.
A dynamic batch has no micro-batch size to divide by from 0.8.0 on.

Sources
-------
verl 0.9.1 ``workers/engine_workers.py:266-269``, ``workers/engine/utils.py`` (``prepare_micro_batches``); verl 0.7.1 ``workers/fsdp_workers.py:249-268``, ``workers/megatron_workers.py:355-360``.
"""

from collections.abc import Iterator
from math import gcd

from msgspec import Struct

from tuner.counted import counted
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.even_batches import even_prompts, largest_divisor
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC
from tuner.trainers.verl.releases import ENGINE_PREVIEW
from tuner.workload import Engine, Phase, Workload

RULE = Rule(
    code="CFG109",
    name="mini-batch-indivisible",
    summary=N_("a mini-batch that the ranks or the micro-batches cannot share evenly"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

_ENGINE = Releases(since=ENGINE_PREVIEW)  # asserts the ranks; earlier workers round down

GUARDS = (
    CodeGuard(words="mini_batch_size get_data_parallel_size", releases=_ENGINE, in_training=True),
    CodeGuard(words="ppo_mini_batch_size normalization", releases=Releases(until="0.8.0")),
    CodeGuard(words="ppo_mini_batch_size ppo_micro_batch_size", static=_ENGINE),
)
_CRITIC_STATIC = Releases(until=ENGINE_PREVIEW)  # later the critic has no static sizes


class TrainedRole(Struct, frozen=True, kw_only=True):
    """A model that is trained in mini-batches of prompts."""

    section: str
    engine: Engine
    phase: Phase


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """At most one finding per role."""
    yield from _role(
        TrainedRole(section=ACTOR, engine=workload.actor.engine, phase=Phase.UPDATE_ACTOR),
        settings,
        workload,
        version,
    )
    if workload.critic is not None:
        critic = TrainedRole(section=CRITIC, engine=workload.critic.engine, phase=Phase.UPDATE_CRITIC)
        yield from _role(critic, settings, workload, version)


def _role(role: TrainedRole, settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    key = f"{role.section}.ppo_mini_batch_size"
    mini = settings.integer(key, minimum=1)
    if mini is None:
        return
    per_prompt = workload.batch.responses_per_prompt
    ranks = role.engine.parallel.data
    sequences = mini * per_prompt
    micro = _micro_batch(role, settings, version)
    rounds = version not in _ENGINE
    prompts = even_prompts(settings, workload, version)  # of the batch as its own check leaves it
    if sequences % ranks and (not rounds or sequences < ranks or micro is None):
        loses = rounds and sequences > ranks
        what = (
            _("rounds {sequences:.2f} sequences per rank down").format(sequences=sequences / ranks)
            if loses
            else _("stops with an assertion")
        )
        yield report(
            RULE,
            settings,
            _("a mini-batch of {prompts} x {responses} does not divide by {ranks}: {release} {what}").format(
                prompts=counted(mini, "prompt"),
                responses=counted(per_prompt, "response"),
                ranks=counted(ranks, "data-parallel rank"),
                release=workload.release,
                what=what,
            ),
            keys=[key],
            overrides=[assign(settings, key, _nearest(mini, per_prompt, ranks, prompts))],
            severity=Severity.WARNING if loses else None,
            phase=role.phase,
        )
    elif micro is not None and (sequences // ranks) % micro:
        yield _uneven_micro_batch(role, settings, workload, sequences // ranks, micro)


def _uneven_micro_batch(
    role: TrainedRole, settings: Settings, workload: Workload, share: int, micro: int
) -> Finding:
    key = f"{role.section}.ppo_micro_batch_size_per_gpu"
    return report(
        RULE,
        settings,
        _(
            "{key}={micro} does not divide one rank's share of a mini-batch, {sequences}: "
            "{release} stops with an assertion"
        ).format(key=key, micro=micro, sequences=counted(share, "sequence"), release=workload.release),
        keys=[key, f"{role.section}.ppo_mini_batch_size"],
        overrides=[assign(settings, key, largest_divisor(share, micro))],
        phase=role.phase,
        effect=Numerics.REORDERED,  # the mini-batch stays, and how it was to be cut was never possible
    )


def _micro_batch(role: TrainedRole, settings: Settings, version: str) -> int | None:
    """The micro-batch size that this release divides by, if it does."""
    if role.section == CRITIC and version not in _CRITIC_STATIC:
        return None
    if version in _ENGINE and settings.flag(f"{role.section}.use_dynamic_bsz"):
        return None
    if settings.get(f"{role.section}.ppo_micro_batch_size") is not None:
        return None  # the check of global sizes speaks first
    return settings.integer(f"{role.section}.ppo_micro_batch_size_per_gpu", minimum=1)


def _nearest(mini: int, per_prompt: int, ranks: int, prompts: int) -> int:
    """The next mini-batch that every rank shares evenly: above, else below."""
    step = ranks // gcd(per_prompt, ranks)
    above = -(-mini // step) * step
    below = mini // step * step
    return above if above <= max(prompts, mini) or below == 0 else below
