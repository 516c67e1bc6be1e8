"""Keys that a release still has in its configuration and no longer reads, under their names of before.

verl 0.7.1 and 0.8.0 move what the old sections of rewards set to the new one when they start. From 0.9.0 on
only the fully asynchronous trainer does: ``main_ppo`` takes the new section alone, and the old ones stay in
the YAML with nothing behind them.

Source: verl 0.7.1 ``trainer/main_ppo.py:44`` and 0.8.0 there ``:47`` (``migrate_legacy_reward_impl``); 0.9.0
and 0.9.1 ``experimental/fully_async_policy/fully_async_main.py:237`` and ``trainer/ppo/reward.py:70``.
"""

from collections.abc import Iterable

from tuner.inputs.tree import Path
from tuner.versions import at_least

SINCE = "0.9.0"  # releases that no longer read them
FUNCTION: Path = ("custom_reward_function", "path")
_SECTIONS = ("custom_reward_function.", "reward_model.", "sandbox_fusion.")
_STILL_READS = "fully_async"


def is_unread(key: str, version: str, program: str) -> bool:
    """Whether a key is an old one of rewards that nothing reads.

    Args:
        key: with dots.
        version: the release.
        program: the module that the launch starts; empty where nobody says.
    """
    return at_least(version, SINCE) and not _reads(program) and key.startswith(_SECTIONS)


def reading(versions: Iterable[str], key: Path, program: str) -> frozenset[str]:
    """The releases with a key that read it as well, where it names a launch's own reward.

    Args:
        versions: that have it.
        key: of the launch.
        program: the module that the launch starts; empty where nobody says.
    """
    if key != FUNCTION or _reads(program):
        return frozenset(versions)
    return frozenset(version for version in versions if not at_least(version, SINCE))


def _reads(program: str) -> bool:
    """Whether a program may read them: one of the project's own does what it likes."""
    return _STILL_READS in program or (bool(program) and not program.startswith("verl."))
