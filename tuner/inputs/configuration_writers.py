"""Programs of a script that write the configuration which a trainer behind them reads, and are no launch.

``python change_yaml.py --file old.yaml --output new.yaml a.b=1``, then ``python main_ppo.py`` without any.
"""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from tuner.inputs.shell.launches import Launch, texts
from tuner.inputs.shell.values import Field

_ENTRY = re.compile(r"(?:.*[./])?(?:main_\w+|fsdp_sft_trainer|sft_trainer\w*)(?:\.py)?")
_HYDRA_OPTION = re.compile(
    r"--(?:config-(?:name|path|dir)|multirun|run|cfg|resolve|package|info|help|hydra-help|version|"
    r"shell-completion|experimental-rerun)(?:=|$)"
)
_YAML = (".yaml", ".yml")


def without_writers(
    started: Sequence[Launch], overridden: Sequence[Launch]
) -> tuple[tuple[Launch, ...], tuple[Launch, ...]]:
    """The launches, with the values that a program before them writes; and the programs that write.

    Args:
        started: all Python programs of the script, in its order.
        overridden: those of them that get overrides.
    """
    writers = [launch for launch in overridden if _takes_other_options(launch)]
    trainers = [launch for launch in started if _ENTRY.fullmatch(launch.program)]
    behind = {
        id(writer): next((trainer for trainer in trainers if _is_behind(trainer, writer, started)), None)
        for writer in writers
    }
    writing = tuple(writer for writer in writers if behind[id(writer)] is not None)
    if not writing:
        return tuple(overridden), ()
    launches = tuple(
        replace(launch, arguments=(*_written(launch, writing, behind), *launch.arguments))
        for launch in started
        if any(launch is trainer for trainer in behind.values())
        or any(launch is one for one in overridden if one not in writing)
    )
    return launches, writing


def _takes_other_options(launch: Launch) -> bool:
    """Whether a program that is no trainer gets options that Hydra does not know."""
    options = (word for word in texts(launch.arguments) if word.startswith("--") and len(word) > len("--"))
    return not _ENTRY.fullmatch(launch.program) and any(not _HYDRA_OPTION.match(word) for word in options)


def _is_behind(launch: Launch, other: Launch, started: Sequence[Launch]) -> bool:
    order = [id(one) for one in started]
    return order.index(id(launch)) > order.index(id(other))


def _written(
    launch: Launch, writing: Sequence[Launch], behind: dict[int, Launch | None]
) -> tuple[Field, ...]:
    """The values that programs before a launch put into a YAML file that they name."""
    return tuple(
        field
        for writer in writing
        if behind[id(writer)] is launch and any(word.endswith(_YAML) for word in texts(writer.arguments))
        for field in writer.arguments
        if "=" in str(field.text) and not str(field.text).startswith("-")
    )
