"""The oldest release that a copy of verl can stand for, by code that no older one has.

Forks take over code and keys each at their own pace: the keys of a copy can be those of one release while the
workers that its launch starts came with the next.
"""

from pathlib import Path

from tuner.errors import InputError
from tuner.files import is_there, read_bytes
from tuner.trainers.verl.defaults import CONFIGS
from tuner.units import MIB

_FSDP, _MEGATRON = CONFIGS
#: By configuration: the release, the file of the package, and the word in it that the one before lacks.
#: Source: verl 0.4.0 ``workers/megatron_workers.py:154``; 0.3.0.post1 builds models of its own there.
_MARKS = {_MEGATRON: ("0.4.0", "workers/megatron_workers.py", b"init_mcore_model")}


def oldest_by_code(package: Path, config: str) -> str:
    """The release whose code the workers of a configuration came with; empty where nothing tells.

    Args:
        package: the folder of the copy.
        config: one of verl's trainer configurations.
    """
    release, name, word = _MARKS.get(config, ("", "", b""))
    file = package / name
    if not release or not is_there(file, Path.is_file):
        return ""
    try:
        return release if word in read_bytes(file, most=MIB) else ""
    except InputError:
        return ""
