"""Passes over the batch that the training loop of a copy of verl makes once more than any release does."""

from typing import TYPE_CHECKING

from tuner.inputs.settings import FurtherCall, Settings
from tuner.inputs.tree import dotted
from tuner.trainers.verl.launch_values import values_of

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.calls_of_fit import LoopCall
    from tuner.trainers.verl.trainer_code.package import TrainerCode

#: The names of one pass. Every release makes it once at the most, under whatever conditions.
#: verl 0.4.1 ``trainer/ppo/ray_trainer.py:1037``, 0.7.0 line 1455, 0.9.1 line 1586.
_LOG_PROBS = ("compute_log_prob", "_compute_old_log_prob")
#: Every release generates once, one branch for each way, and once more for ReMax, which is priced.
#: verl 0.4.1 ``trainer/ppo/ray_trainer.py:983-995``, 0.7.0 lines 1361-1378, 0.9.1 line 1513.
_GENERATES = ("generate_sequences",)
_PRICED = frozenset({"REMAX", "remax"})
#: What releases ask before these calls that is no key: 0.7.0 lines 1360 and 1444.
_OPEN = frozenset({"async_rollout_mode", "bypass_recomputing_logprobs"})
_PROGRAM, _TRAINER = "main_ppo", "trainer/ppo/ray_trainer.py"
_DECIDES = "algorithm.adv_estimator"  # of a call without a condition: what names the loop


def further_calls(settings: Settings, code: "TrainerCode") -> tuple[FurtherCall, ...]:
    """The calls that a launch of the copy's own program surely makes beside the usual one."""
    if not settings.defaults_of or settings.started.removesuffix(".py").rpartition(".")[2] != _PROGRAM:
        return ()
    from tuner.trainers.verl.trainer_code.calls_of_fit import calls_of_fit  # of few launches

    file = f"{code.root.name}/{_TRAINER}"
    text = code.text(file)
    if text is None:
        return ()
    found = []
    for functions in (_LOG_PROBS, _GENERATES):
        calls = calls_of_fit(text, functions, values_of(settings))
        for call in _beyond_the_usual(calls):
            key = next((dotted(key) for key in call.keys if settings.is_set(dotted(key))), _DECIDES)
            found.append(FurtherCall(function=functions[0], key=key, line=f"{file}:{call.line}"))
    return tuple(found)


def _beyond_the_usual(calls: "tuple[LoopCall, ...]") -> "tuple[LoopCall, ...]":
    """The sure calls beyond the usual one, which may stand under the releases' own open conditions."""
    calls = tuple(call for call in calls if call.holds is not False and _PRICED.isdisjoint(call.words))
    sure = tuple(call for call in calls if call.holds)
    usual_is_open = any(call.holds is None and _OPEN.intersection(call.words) for call in calls)
    return sure if usual_is_open else sure[1:]
