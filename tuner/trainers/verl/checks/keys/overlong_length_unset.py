"""A buffer of overlong responses without the length that it ends at

What it checks
--------------
``overlong_buffer_cfg`` of ``reward.reward_kwargs``, or of ``reward_model.reward_kwargs``, beside the reward manager ``dapo``: whether ``max_resp_len`` is set, and no smaller than the buffer's ``len``.
Where the buffer is not enabled, so that the length decides about nothing, the override is the job's own ``data.max_response_length``.

Why it matters
--------------
The manager asserts it when it is made, before the first step, whatever ``overlong_buffer_cfg.enable`` says.

When it does not apply
----------------------
From 0.9.0 on where ``enable`` is not on, other managers, and releases before 0.4.0.
A copy of verl whose manager has no such assertion.

Sources
-------
verl 0.4.0 ``workers/reward_manager/dapo.py:42-43``, 0.5.0 lines 44-50; 0.6.1 ``experimental/reward/reward_loop/dapo.py:39-45``; 0.7.1 ``experimental/reward_loop/reward_manager/dapo.py:39-45``, 0.9.0 lines 39-45.
verl 0.7.1 ``experimental/reward_loop/reward_loop.py:70-73`` (``reward_model.reward_kwargs`` wins).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.workload import Workload

RULE = Rule(
    code="CFG212",
    name="overlong-length-unset",
    summary=N_("a buffer of overlong responses without the length that it ends at"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

_ASSERTS = Releases(since="0.4.0")
_COMPARES = Releases(since="0.5.0")
_ONE_SECTION = Releases(since="0.7.1")
_WHERE_ENABLED = Releases(since="0.9.0")

GUARDS = (CodeGuard(words="max_resp_len must be provided", file="dapo.py", releases=_ASSERTS),)

_OLDER, _NEWER = "reward_model", "reward"
_RESPONSE = "data.max_response_length"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the length is not set, or shorter than the buffer."""
    if version not in _ASSERTS or _manager(settings, version) != "dapo":
        return
    section = f"{_section(settings, version)}.reward_kwargs"
    buffer, key = f"{section}.overlong_buffer_cfg", f"{section}.max_resp_len"
    if not settings.section(buffer) or (version in _WHERE_ENABLED and not settings.flag(f"{buffer}.enable")):
        return
    length, needed = settings.integer(key), settings.integer(f"{buffer}.len", default=0)
    longest = None if settings.flag(f"{buffer}.enable") else settings.integer(_RESPONSE)
    if length is not None and (version not in _COMPARES or length >= needed):
        return
    text = _("{buffer} is set and {key} is not: the reward manager dapo of {release} asserts it at the start")
    if length is not None:
        text = _("{key}={length} is less than {buffer}.len={needed}, which {release} asserts at the start")
    yield report(
        RULE,
        settings,
        text.format(buffer=buffer, key=key, length=length, needed=needed, release=workload.release),
        keys=[key, f"{buffer}.len"],
        overrides=[] if longest is None or longest < needed else [assign(settings, key, longest)],
    )


def _manager(settings: Settings, version: str) -> str:
    """The name of the reward manager; of several keys the older one wins where it is set."""
    older = settings.get("reward_model.reward_manager")
    newer = settings.get("reward.reward_manager.name") if version in _ONE_SECTION else None
    return str(older if older is not None else newer)


def _section(settings: Settings, version: str) -> str:
    """The section whose arguments the manager gets."""
    older = version not in _ONE_SECTION or bool(settings.section(f"{_OLDER}.reward_kwargs"))
    return _OLDER if older else _NEWER
