"""The keys of verl that reading a workload looks at, in each release."""

from functools import cache

from tuner.inputs.interpolation import Resolver
from tuner.inputs.tree import contains, dotted, split_key
from tuner.trainers.verl.defaults import read_defaults, trainer_configs
from tuner.trainers.verl.keys import KEYS
from tuner.trainers.verl.releases import PREVIEWS, reaches
from tuner.trainers.verl.service_keys import ONLY_TEACHER, POLICY_SECTION, SERVED, SERVER_SECTIONS, TEACHERS
from tuner.trainers.verl.veomni_keys import VEOMNI


@cache
def setting_keys(version: str) -> frozenset[str]:
    """The keys that a release's settings are read by, whichever of its workers run."""
    generations = (version, PREVIEWS.get(version, version))
    names = (name for names in (*KEYS.values(), *VEOMNI.values()) for name in names)
    read = {name.key for name in names if any(name.holds(generation, reaches) for generation in generations)}
    read |= {
        name.key.replace(POLICY_SECTION, section, 1)
        for meaning in SERVED
        for name in KEYS[meaning]
        if name.holds(version, reaches)
        for section in SERVER_SECTIONS
    }
    read.add(f"{TEACHERS}.{ONLY_TEACHER}.model_path")
    return frozenset(read | {"model_engine"})  # which chooses the configuration before anything is read


@cache
def source_keys(version: str) -> frozenset[str]:
    """The keys that these take their values from by default."""
    sources: set[str] = set()
    for config in trainer_configs(version):
        tree = dict(read_defaults(version, config).tree)
        resolver = Resolver(tree)
        for path in map(split_key, setting_keys(version)):
            if contains(tree, path):
                sources.update(map(dotted, resolver.path_chain(path)))
    return frozenset(sources)
