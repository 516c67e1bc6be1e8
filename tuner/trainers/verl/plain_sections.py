"""Whether something reads a section of keys for which a launch gives a plain value.

Hydra puts the value in the section's place, and the launch fails where a key of the section is read.
"""

from tuner.inputs.settings import Settings
from tuner.inputs.tree import Path, dotted, split_key
from tuner.trainers.verl.releases import reaches

#: What is handed to SGLang beside verl's own keys.
SGLANG_ARGUMENTS = "actor_rollout_ref.rollout.engine_kwargs.sglang"

_ENGINE = "sglang"
_READ_SINCE = "0.6.0"
_NAME = "actor_rollout_ref.rollout.name"


def reads_section(settings: Settings, version: str, path: Path) -> bool:
    """Whether the code that runs reads keys of a section.

    Of most nobody looked: those with keys of their own are taken to be read, and what stands in the place of
    one of free form is taken.

    SGLang's arguments are read where SGLang generates, since 0.6.0, or by the code of a copy of verl.

    Source: verl 0.5.0 ``workers/rollout/sglang_rollout/sglang_rollout.py`` never names ``engine_kwargs``,
    0.6.0 line 417 and 0.7.1 ``async_sglang_server.py:161`` do.
    """
    if path != split_key(SGLANG_ARGUMENTS):
        return bool(settings.default_value(dotted(path)) != {})
    if not str(settings.get(_NAME, "")).startswith(_ENGINE):
        return False
    has = settings.has_statement
    return reaches(version, _READ_SINCE) if has is None else has(f"engine_kwargs {_ENGINE}", "sglang_rollout")
