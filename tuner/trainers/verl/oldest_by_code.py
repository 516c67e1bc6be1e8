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
#: By configuration: releases, the newest first, a file of the package, and the word in it that the one before
#: lacks.
#: Source: verl 0.4.0 ``workers/megatron_workers.py:154``; 0.3.0.post1 builds models of its own there. In
#: ``workers/fsdp_workers.py``, LoRA came with 0.4.0 (line 124), the profiler's class with 0.4.1 (line 95) and
#: the change between training and rollout as a method with 0.6.0 (line 636).
_MARKS = {
    _FSDP: (
        ("0.6.0", "workers/fsdp_workers.py", b"def rollout_mode"),
        ("0.4.1", "workers/fsdp_workers.py", b"DistProfilerExtension"),
        ("0.4.0", "workers/fsdp_workers.py", b"_is_lora"),
    ),
    _MEGATRON: (("0.4.0", "workers/megatron_workers.py", b"init_mcore_model"),),
}


def oldest_by_code(package: Path, config: str) -> str:
    """The release whose code the workers of a configuration came with; empty where nothing tells.

    Args:
        package: the folder of the copy.
        config: one of verl's trainer configurations.
    """
    return next((release for release, name, word in _MARKS.get(config, ()) if _has(package / name, word)), "")


def _has(file: Path, word: bytes) -> bool:
    if not is_there(file, Path.is_file):
        return False
    try:
        return word in read_bytes(file, most=MIB)
    except InputError:
        return False
