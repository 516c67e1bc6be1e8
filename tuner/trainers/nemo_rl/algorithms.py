"""By which algorithm a job of NeMo-RL learns, and under which keys its models beside the policy stand.

Source: NeMo-RL v0.5.0 to v0.7.0 ``nemo_rl/algorithms`` (``grpo.py``, ``ppo.py``, ``distillation.py``,
``dpo.py``, ``rm.py``, ``sft.py``: ``MasterConfig``).
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tuner.errors import UnsupportedError
from tuner.inputs.settings import Settings
from tuner.language import _
from tuner.trainers.nemo_rl.keys import BESIDE, GENERATING, GIVEN, TABLES
from tuner.trainers.settings_by_meaning import SettingsByMeaning

READ = (*GENERATING, *GIVEN)


def algorithm_of(tree: Mapping[str, Any]) -> str | None:
    """The section of the algorithm by which a job learns, None where it has none that is read."""
    return next((name for name in READ if isinstance(tree.get(name), dict)), None)


def source_of(settings: Settings, version: str) -> SettingsByMeaning:
    """Settings under the keys of their algorithm."""
    table = TABLES[algorithm_of(settings.tree) or GENERATING[0]]
    return SettingsByMeaning(settings=settings, version=version, table=table)


def of_model_beside(source: SettingsByMeaning, section: str) -> SettingsByMeaning:
    """Settings under the keys of a model beside the policy."""
    return replace(source, table=BESIDE[section])


def learns_from_given(source: SettingsByMeaning) -> bool:
    """Whether the job learns from given sequences."""
    return algorithm_of(source.settings.tree) in GIVEN


def learns_from_pairs(source: SettingsByMeaning) -> bool:
    """Whether the given sequences are pairs, of which one is preferred: a batch has twice as many."""
    return algorithm_of(source.settings.tree) in ("dpo", "rm")


def has_critic(source: SettingsByMeaning) -> bool:
    """Whether a value model is trained beside the policy."""
    return algorithm_of(source.settings.tree) == "ppo"


def distils(source: SettingsByMeaning) -> bool:
    """Whether a teacher says what is learned."""
    return algorithm_of(source.settings.tree) == "distillation"


def expect_one_teacher(source: SettingsByMeaning) -> None:
    """Refuse teachers whose logits are brought from one vocabulary to another.

    Raises:
        UnsupportedError: there are such.
    """
    settings = source.settings
    if isinstance(settings.get("teachers"), list) or not isinstance(settings.get("teacher"), dict):
        raise UnsupportedError(
            _("distillation between vocabularies is not modelled for NeMo-RL"),
            key="teachers",
            hint=_("jobs with one {key} are").format(key="teacher"),
        )
