"""The keys of a launch that a copy of verl has of its own: what they do there no release tells."""

from tuner.inputs.settings import Settings
from tuner.inputs.tree import contains, split_key
from tuner.trainers.key_facts import KeyKind
from tuner.trainers.verl.coverage.tables import PPO_COVERAGE
from tuner.trainers.verl.defaults import FINE_TUNING_CONFIGS, PPO_CONFIGS, has_config, read_defaults
from tuner.trainers.verl.recipes import RECIPES

_KNOWN = (KeyKind.MODELLED, KeyKind.NO_EFFECT)


def keys_of_copy(settings: Settings, version: str) -> tuple[str, ...]:
    """The keys that the user sets and the copy has, but not the release that it is read as.

    Args:
        settings: laid on the configuration of the copy; of others there are none.
        version: the release that the copy is read as.
    """
    if not settings.defaults_of or settings.program is not None:
        return ()
    keys = [key for key in settings.user_keys if contains(settings.defaults, split_key(key))]
    configs = [config for config in (*PPO_CONFIGS, *FINE_TUNING_CONFIGS) if has_config(version, config)]
    released = [read_defaults(version, config).tree for config in configs]
    released += [recipe.tree for recipe in RECIPES]
    own = [key for key in keys if not any(contains(tree, split_key(key)) for tree in released)]
    counted = {key for factor in settings.batch_factors for key in factor.keys}
    own = [key for key in own if key not in counted]
    return tuple(key for key in own if PPO_COVERAGE.classification(key, version).kind not in _KNOWN)
