"""NeMo-RL, as :class:`~tuner.trainers.protocol.Trainer` asks for it: the only place that spells its keys."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tuner.errors import InputError, UnsupportedError
from tuner.inputs.overrides import Argument, parse_overrides
from tuner.inputs.tree import shown
from tuner.inputs.yaml_file import Document, read_yaml
from tuner.language import _
from tuner.trainers.nemo_rl import checks, detection
from tuner.trainers.nemo_rl.batches import TOKEN_BYTES
from tuner.trainers.nemo_rl.parts import QUANTITIES
from tuner.trainers.nemo_rl.releases import RELEASES
from tuner.trainers.protocol import Behaviour, Loaded, Reader
from tuner.workload import Workload
from tuner.workload.place import FailurePlace

if TYPE_CHECKING:
    from tuner.other_base import OtherBase
    from tuner.out_of_memory.stack import Call
    from tuner.trainers.nemo_rl.configuration import NemoConfiguration
    from tuner.trainers.placement import PlacedLaunch, Placement, PoolSplit

name = "NeMo-RL"
examples = Path(__file__).parent / "examples"
rules = checks.RULES
bundled = RELEASES
token_bytes = TOKEN_BYTES
_ENGINES = ("automodel", "megatron")
_CONFIG, _ENDINGS = "--config", (".yaml", ".yml")
runs = None
catalogue = None
may_configure = detection.may_configure


def recognises(document: Document | None, given: Sequence[Argument], *, program: str) -> bool:
    """Whether a configuration by its keys, or a launch by its program, is surely for NeMo-RL."""
    if detection.is_program(program):
        return True
    return document is not None and detection.is_configuration(document.tree)


def parse(document: Document | None, given: Sequence[Argument], **launch: Any) -> "NemoConfiguration":
    """A file, or the one that ``--config`` names, and overrides.

    Raises:
        InputError: a file or an argument is malformed.
    """
    from tuner.trainers.nemo_rl.configuration import NemoConfiguration  # most inputs are for another

    named, others = _option(given)
    if named is not None and document is None:
        document = read_yaml(Path(launch.get("folder") or ".") / named.text)
    return NemoConfiguration(document=document, overrides=parse_overrides(others).overrides)


def _option(given: Sequence[Argument]) -> tuple[Argument | None, list[Argument]]:
    """The value of ``--config``, the last that is given, and the arguments beside it.

    Raises:
        InputError: a variable that only a run has stands in its place.

    Source: NeMo-RL v0.7.0 ``examples/run_grpo.py`` (``parse_args``).
    """
    named, others = None, []
    following = iter(given)
    for argument in following:
        name, equals, value = argument.text.partition("=")
        if name != _CONFIG:
            others.append(argument)
        else:
            named = replace(argument, text=value) if equals else next(following, named)
    if named is not None and not named.text.endswith(_ENDINGS):
        raise InputError(
            _("{option} names no file of YAML: got {value}").format(option=_CONFIG, value=shown(named.text)),
            location=named.location,
            hint=_("where only a run tells it, give the file itself"),
        )
    return named, others


def behaviours(release: str, nearest: Workload, read: Reader) -> tuple[Behaviour, ...]:
    """A release that is not bundled is taken to run a job as the nearest one does."""
    return (Behaviour(name=_("as {release} does").format(release=nearest.release), workload=nearest),)


def placed(loaded: Loaded, workload: Workload, placement: "Placement", split: "PoolSplit") -> "PlacedLaunch":
    """No other placement is written for NeMo-RL."""
    raise UnsupportedError(_("generation on other GPUs is not planned for NeMo-RL"))


def strategy_lines(loaded: Loaded, workload: Workload, name: str) -> tuple[str, ...]:
    """The switches of both engines, where another one is to train than the job's own.

    Raises:
        UnsupportedError: NeMo-RL has no engine of this name.
    """
    if name not in _ENGINES:
        raise UnsupportedError(
            _("NeMo-RL has no strategy {name}").format(name=name),
            hint=_("its own are {known}").format(known=", ".join(_ENGINES)),
        )
    megatron = name == "megatron"
    wanted = {"policy.dtensor_cfg.enabled": not megatron, "policy.megatron_cfg.enabled": megatron}
    settings = loaded.settings
    return tuple(f"{key}={value}" for key, value in wanted.items() if settings.get(key) is not value)


def other_base(before: Loaded, after: Loaded, program: str) -> "OtherBase | None":
    """Lines are enough for every key."""
    return None


def place_of(calls: "Sequence[Call]") -> FailurePlace:
    """No function of a stack is known yet."""
    return FailurePlace()


def deciding_keys(place: FailurePlace, version: str) -> tuple[str, ...]:
    """The keys that decide most of the memory, wherever it was."""
    return tuple(QUANTITIES)
