"""A value that this release does not know

What it checks
--------------
Keys that take one of a few words, against the words of the release: the schedule of the learning rate, the estimator of advantages, the policy loss, the KL estimate of the loss, the strategy of FSDP, the dtypes of Megatron, and router replay.
The override is the closest word, where one is close.

Why it matters
--------------
verl raises an error, in most cases before the first step.

When it does not apply
----------------------
Estimators of advantages and policy losses can be added by code of one's own from 0.6 on, so that an unknown name is a warning there where it has the letters of a known one, and no more than advice, without an override, where it has not.
Keys that the job does not read, such as the KL estimate without a KL loss.
A launch in a copy of verl is held against the estimators and losses in the code of that copy.

Sources
-------
verl 0.9.1 ``workers/config/optimizer.py`` (``FSDPOptimizerConfig``, ``McoreOptimizerConfig``), ``workers/config/engine.py``, ``workers/config/actor.py`` (``RouterReplayConfig``), ``trainer/ppo/core_algos.py`` (``AdvantageEstimator``, ``register_policy_loss``, ``kl_penalty_forward``).
verl 0.4.1 ``workers/fsdp_workers.py:391``, ``trainer/ppo/ray_trainer.py:345-358``.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec import Struct

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, is_slip, of_own_word, report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC, REFERENCE, shards_with_fsdp
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

RULE = Rule(
    code="CFG148",
    name="value-unknown",
    summary=N_("a value that this release does not know"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)


class Words(Struct, frozen=True, kw_only=True):
    """A key and the words that some releases take for it."""

    key: str
    words: tuple[str, ...]
    releases: Releases = Releases()
    read_with: str | None = None  # a switch without which the key is not read
    fsdp: bool | None = None  # read under FSDP only, under Megatron only, or by both
    extensible: Releases | None = None  # where code of one's own can add words


_REGISTRY = Releases(since="0.6.0")

IS_OF_VALUES = True  # a copy of the trainer may know more words, which it then has in its code

GUARDS = (
    CodeGuard(words="Warmup style", key="warmup_style", releases=Releases(since="0.4.0", until="0.6.0")),
    CodeGuard(words="warmup_style", file="config/optimizer", key="warmup_style", releases=_REGISTRY),
    CodeGuard(words="lr_scheduler_type FSDPOptimizerConfig", key="lr_scheduler_type", releases=_REGISTRY),
    CodeGuard(words="FSDPEngineConfig strategy", key="strategy", releases=_REGISTRY),
    CodeGuard(words="McoreEngineConfig dtype", key="megatron.dtype", releases=Releases(since="0.6.1")),
    CodeGuard(words="allowed_dtypes field_name", key="_dtype", releases=Releases(since="0.9.0")),
    CodeGuard(words="RouterReplayConfig", key="router_replay.mode", releases=Releases(since="0.7.0")),
    CodeGuard(words="adv_estimator RLOO", key="adv_estimator", releases=Releases(until="0.6.0")),
    CodeGuard(words="get_adv_estimator_fn", key="adv_estimator", releases=Releases(since="0.4.1")),
    CodeGuard(words="get_policy_loss_fn", key="loss_mode", releases=Releases(since="0.4.1")),
    CodeGuard(words="kl_penalty NotImplementedError", key="kl_loss_type"),
    CodeGuard(
        words="use_legacy_worker_impl Invalid",
        key="use_legacy_worker_impl",
        releases=Releases(since="0.5.0", until="0.8.0"),
    ),
)
_SCHEDULES = ("constant", "cosine")
_FLOATS = ("fp32", "float32", "32", "bf16", "bfloat16")
_REPLAYS = ("disabled", "R2", "R3")
_ESTIMATORS = (
    ("0", "gae grpo reinforce_plus_plus remax rloo"),
    ("0.4.0", "reinforce_plus_plus_baseline opo grpo_passk"),
    ("0.5.0", "gpg"),
    ("0.6.0", "rloo_vectorized grpo_vectorized"),
    ("0.7.1", "optimal_token_baseline tir_optimal_token_baseline gdpo"),
)
_LOSSES = (
    ("0.4.1", "vanilla clip_cov kl_cov"),
    ("0.5.0", "gpg"),
    ("0.6.0", "gspo geo_mean"),
    ("0.6.1", "rollout_correction"),
    ("0.7.0", "sapo cispo bypass_mode -rollout_correction"),
    ("0.7.1", "dppo_tv dppo_kl"),
    ("0.9.0", "dro"),
)
_KL = (
    ("0", "kl abs mse low_var_kl"),
    ("0.4.0", "k1 k2 k3"),
    ("0.6.0", "kl+ abs+ mse+ low_var_kl+ k1+ k2+ k3+"),
)
_STRATEGIES = (("0", "fsdp fsdp2"), ("0.9.1", "fsdp_turbo"))


def _by_release(changes: tuple[tuple[str, str], ...]) -> Iterator[tuple[Releases, tuple[str, ...]]]:
    """The words of each range of releases, of what the first of each range added, or dropped with a minus."""
    words: tuple[str, ...] = ()
    for (since, changed), until in zip(
        changes, (*(since for since, _words in changes[1:]), None), strict=True
    ):
        dropped = {word[1:] for word in changed.split() if word.startswith("-")}
        added = (word for word in changed.split() if not word.startswith("-"))
        words = (*(word for word in words if word not in dropped), *added)
        yield Releases(since=None if since == "0" else since, until=until), words


_TABLE = (
    *(
        Words(key=f"{section}.optim.{name}", words=_SCHEDULES, fsdp=True)
        for section in (ACTOR, CRITIC)
        for name in ("lr_scheduler_type", "warmup_style")
    ),
    *(
        Words(
            key=f"{section}.optim.{name}_dtype", words=_FLOATS, fsdp=False, releases=Releases(since="0.9.0")
        )
        for section in (ACTOR, CRITIC)
        for name in ("main_grads", "exp_avg", "exp_avg_sq")
    ),
    *(
        Words(key=key, words=words, releases=releases, fsdp=True)
        for releases, words in _by_release(_STRATEGIES)
        for key in (
            f"{ACTOR}.fsdp_config.strategy",
            f"{CRITIC}.fsdp.strategy",
            f"{CRITIC}.model.fsdp_config.strategy",
        )
    ),
    Words(key=f"{ACTOR}.megatron.dtype", words=("bfloat16", "float16"), fsdp=False),
    Words(key=f"{ACTOR}.router_replay.mode", words=_REPLAYS),
    Words(key=f"{ACTOR}.megatron.router_replay.mode", words=_REPLAYS, fsdp=False),
    Words(key=f"{REFERENCE}.megatron.router_replay.mode", words=_REPLAYS, fsdp=False),
    *(
        Words(key="algorithm.adv_estimator", words=words, releases=releases, extensible=_REGISTRY)
        for releases, words in _by_release(_ESTIMATORS)
    ),
    *(
        Words(key=f"{ACTOR}.policy_loss.loss_mode", words=words, releases=releases, extensible=_REGISTRY)
        for releases, words in _by_release(_LOSSES)
    ),
    *(
        Words(key=f"{ACTOR}.kl_loss_type", words=words, releases=releases, read_with=f"{ACTOR}.use_kl_loss")
        for releases, words in _by_release(_KL)
    ),
    Words(
        key="trainer.use_legacy_worker_impl",
        words=("auto", "enable", "disable"),
        releases=Releases(since="0.5.0", until="0.8.0"),
        fsdp=True,
    ),
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per key whose value is none of its words."""
    for row, value in _read(settings, workload, version):
        if value not in row.words:
            yield _finding(row, value, row.words, settings, workload, version)


def check_of_copy(
    settings: Settings, workload: Workload, version: str, code: "TrainerCode"
) -> Iterator[Finding]:
    """One finding per key whose value is none of the words in the code of a copy of the trainer."""
    for row, value in _read(settings, workload, version):
        if value not in row.words or not code.has_literal(value):
            words = _words_of(row.key, code) or row.words
            if value not in words:
                yield _finding(row, value, words, settings, workload, version, of_copy=True)


def _words_of(key: str, code: "TrainerCode") -> tuple[str, ...]:
    """The words of a key that can be added to, in the code of a copy; empty of another key."""
    if key.endswith(".adv_estimator"):
        return tuple(
            dict.fromkeys((*code.members("AdvantageEstimator"), *code.registered("register_adv_est")))
        )
    losses = code.registered("register_policy_loss") if key.endswith(".loss_mode") else ()
    return tuple(dict.fromkeys(("vanilla", *losses))) if losses else ()


def _read(settings: Settings, workload: Workload, version: str) -> Iterator[tuple[Words, str]]:
    """The keys that the job reads, with their values."""
    fsdp = shards_with_fsdp(workload)
    for row in _TABLE:
        if version not in row.releases or row.fsdp not in (None, fsdp):
            continue
        if row.key.startswith(CRITIC) and workload.critic is None:
            continue
        if row.read_with is not None and not settings.flag(row.read_with):
            continue
        value = settings.get(row.key)
        if value is not None:
            yield row, str(value)


def _finding(
    row: Words,
    value: str,
    words: tuple[str, ...],
    settings: Settings,
    workload: Workload,
    version: str,
    *,
    of_copy: bool = False,
) -> Finding:
    closest = get_close_matches(value.lower(), words, n=1)
    own = row.extensible is not None and version in row.extensible
    if own and not of_copy and not is_slip(value, words):
        closest = []  # it is meant, and another word trains otherwise
    what = _("knows it only where code of one's own adds it") if own else _("raises an error")
    return report(
        RULE,
        settings,
        _("{key}={value} is none of {words}: {release} {what}").format(
            key=row.key, value=value, words=", ".join(words), release=workload.release, what=what
        ),
        keys=[row.key],
        overrides=[assign(settings, row.key, closest[0])] if closest else [],
        severity=of_own_word(value, words, in_copy=of_copy) if own else None,
    )
