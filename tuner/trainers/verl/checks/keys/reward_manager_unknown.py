"""A reward manager that the trainer does not know

What it checks
--------------
``reward.reward_manager.name``, or ``reward_model.reward_manager`` where that is set, against the names that the reward loop of the release registers.
The override is ``naive``, the release's own, for a manager of the older registry, unless the launch's reward function takes lists of responses.
In an older copy of verl: against the names that its ``trainer/main_ppo.py`` or ``trainer/ppo/reward.py`` compares with before it raises an error.

Why it matters
--------------
verl has two registries of reward managers, and from 0.7.0 on rewards are computed by the workers of the reward loop, which look in the newer one.
``prime`` and ``batch`` are in the older one alone: the workers raise ``ValueError: Unknown reward manager``.
Up to 0.4.0 a chain of comparisons chooses the manager, and ends in ``NotImplementedError``.

When it does not apply
----------------------
A manager that is loaded from a file, with ``source`` or ``reward_loop_source`` set to ``importlib``.
Names that neither registry has may be added by code of one's own, so that they are a warning where they have the letters of a known one, and no more than advice where they are not.
0.7.0 without the reward loop, ``reward_model.use_reward_loop=False``, and releases before it of which no copy lies beside the launch.
Programs of one's own in an older copy.

Sources
-------
verl 0.7.0 ``experimental/reward_loop/reward_loop.py:75-79``, 0.7.1 lines 48-54; ``experimental/reward_loop/reward_manager/registry.py:54``, 0.7.1 line 52.
verl 0.3.0 ``trainer/main_ppo.py:144-153``, 0.4.0 ``trainer/ppo/reward.py:61-92`` (the chain).
verl 0.7.1 ``trainer/ppo/reward.py:112``, 0.8.0 line 95; ``workers/reward_manager/prime.py:102`` (the older registry).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, of_own_word, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

RULE = Rule(
    code="CFG194",
    name="reward-manager-unknown",
    summary=N_("a reward manager that the trainer does not know"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

_LOOP = Releases(since="0.7.0")
_ONE_SECTION = Releases(since="0.7.1")

GUARDS = (
    CodeGuard(words="get_reward_manager_cls Unknown reward manager", file="reward_loop", releases=_LOOP),
)

_NAMES = ("naive", "dapo", "remote", "rate_limited")
_LATER = (*_NAMES, "gdpo")
_OLDER = ("prime", "batch")  # in the older registry alone
_OLDER_REGISTRY = "workers/reward_manager"
_DECORATOR = "register(?:_manager)?"
_SECTION = "reward.reward_manager"
_OLDER_KEY = "reward_model.reward_manager"
_PROGRAM = "verl.trainer.main_ppo"
_CHAINS = ("verl/trainer/main_ppo.py", "verl/trainer/ppo/reward.py")


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for a name that the release does not register."""
    name = _named_manager(settings, version)
    known = _LATER if version in _ONE_SECTION else _NAMES
    if name is not None and name not in known:
        yield _finding(name, known, settings, workload, version)


def check_of_copy(
    settings: Settings, workload: Workload, version: str, code: "TrainerCode"
) -> Iterator[Finding]:
    """A finding for a name that a copy of the trainer registers nowhere, or in the older registry alone."""
    if version not in _LOOP:
        yield from _of_chain(settings, workload, code)
        return
    name = _named_manager(settings, version)
    if name is None or (name not in _OLDER and code.has_literal(name)):
        return
    known = code.registered(_DECORATOR, file="reward_loop")
    if known and name not in code.registered(_DECORATOR, outside=_OLDER_REGISTRY):
        yield _finding(name, known, settings, workload, version, of_copy=True)


def _of_chain(settings: Settings, workload: Workload, code: "TrainerCode") -> Iterator[Finding]:
    """A finding for a name that the chain of comparisons of an older copy ends without."""
    name = str(settings.get(_OLDER_KEY))
    if not settings.is_set(_OLDER_KEY) or name in _NAMES[:1] or settings.started != _PROGRAM:
        return
    from tuner.trainers.verl.trainer_code.compared_words import compared_words  # few launches name another

    for file in _CHAINS:
        chain = compared_words(code.text(file) or "", _OLDER_KEY.rpartition(".")[2])
        if chain is None:
            continue
        if name not in chain.words:
            yield report(
                RULE,
                settings,
                _("{key}={value} is none of {words}, and {file}:{line} raises an error for others").format(
                    key=_OLDER_KEY, value=name, words=", ".join(chain.words), file=file, line=chain.line
                ),
                keys=[_OLDER_KEY],
            )
        return


def _named_manager(settings: Settings, version: str) -> str | None:
    """The name that the reward loop looks up; None where it looks up none."""
    if version not in _LOOP:
        return None
    key, source = _key(settings, version), settings.get("reward_model.reward_loop_source")
    name = settings.get(key) if settings.is_set(key) else None  # a recipe's own is not looked up
    if version in _ONE_SECTION:
        source = source or settings.get(f"{_SECTION}.source")
    elif not settings.flag("reward_model.use_reward_loop") or settings.get(f"{ROLLOUT}.mode") == "sync":
        return None
    return None if name is None or source not in (None, "register") else str(name)


def _key(settings: Settings, version: str) -> str:
    older = version not in _ONE_SECTION or settings.get(_OLDER_KEY) is not None
    return _OLDER_KEY if older else f"{_SECTION}.name"


def _finding(
    name: str,
    known: tuple[str, ...],
    settings: Settings,
    workload: Workload,
    version: str,
    *,
    of_copy: bool = False,
) -> Finding:
    key = _key(settings, version)
    older = name in _OLDER
    notes, naive = [], older and "naive" in known
    if naive:
        from tuner.trainers.verl.reward_function import takes_lists  # few launches name another one

        if takes_lists(settings):
            naive = False
            note = _(
                "naive is no way out: the reward function of this launch takes lists of responses, and naive "
                "gives it one at a time."
            )
            notes.append(note)
    what = _("raises an error") if older else _("knows it only where code of one's own adds it")
    return report(
        RULE,
        settings,
        _("{key}={value} is none of {words}: {release} {what}").format(
            key=key, value=name, words=", ".join(known), release=workload.release, what=what
        ),
        keys=[key],
        overrides=[assign(settings, key, "naive")] if naive else [],
        notes=notes,
        severity=None if older else of_own_word(name, known, in_copy=of_copy),
    )
