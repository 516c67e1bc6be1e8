"""Tells the entry points of verl apart: by what a launch starts, by a configuration's name, by keys."""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from tuner.errors import Location, UnsupportedError
from tuner.inputs.tree import Path, dotted
from tuner.language import N_, _
from tuner.trainers.verl.programs import Program

HINT = N_(
    "advice is for verl's PPO and GRPO trainers (verl.trainer.main_ppo and recipes on its configuration) and "
    "for supervised fine-tuning (verl.trainer.fsdp_sft_trainer, verl.trainer.sft_trainer)"
)

_PPO_SECTIONS = frozenset(
    {"actor_rollout_ref", "critic", "algorithm", "reward_model", "reward", "model_engine"}
)
OWN_SECTIONS = frozenset({"actor_rollout_ref", "model_engine"})
"""Sections that no other trainer has."""


class EntryPoint(Struct, frozen=True, kw_only=True):
    """A program of verl that does not train."""

    purpose: str
    modules: str
    configs: frozenset[str]  # names of its primary configurations
    programs: frozenset[str]
    does: str


GENERATION = EntryPoint(
    purpose=N_("offline generation"),
    modules=N_("verl.trainer.main_generation or verl.trainer.main_generation_server"),
    configs=frozenset({"generation"}),
    programs=frozenset({"main_generation", "main_generation_server"}),
    does=N_(
        "{program} trains nothing: it only generates, by an engine that takes gpu_memory_utilization of each "
        "card for weights and KV cache, which is not modelled"
    ),
)
EVALUATION = EntryPoint(
    purpose=N_("evaluation of generated responses"),
    modules="verl.trainer.main_eval",
    configs=frozenset({"evaluation"}),
    programs=frozenset({"main_eval"}),
    does=N_("{program} trains nothing: it scores responses of a file on the CPU, which is not modelled"),
)

_MODULES = {
    "fsdp_sft_trainer": Program.SFT,
    "sft_trainer": Program.SFT_ENGINE,
    "sft_trainer_ray": Program.SFT_ENGINE,
}
_CONFIGS = {
    "sft_trainer": Program.SFT,
    "sft_trainer_engine": Program.SFT_ENGINE,
    "sft_trainer_engine_megatron": Program.SFT_ENGINE,
    "sft_trainer_engine_veomni": Program.SFT_ENGINE,
}
_SFT_KEYS: tuple[Path, ...] = (  # keys and sections of fine-tuning's own trainer that the other lacks
    ("model", "partial_pretrain"),
    ("model", "fsdp_config"),
    ("model", "strategy"),
    ("ulysses_sequence_parallel_size",),
    ("use_remove_padding",),
)
_FINE_TUNING = frozenset({"model", "optim", "engine", "checkpoint"})  # sections that both of them may have


def program_started(module: str, config: str | None) -> Program | None:
    """The program of fine-tuning that a launch starts; None where nothing says so.

    Args:
        module: a module or the path of a file; empty where nobody says.
        config: the name of a configuration that is asked for.
    """
    stem = module.removesuffix(".py").replace("/", ".").rpartition(".")[2]
    return _MODULES.get(stem) or _CONFIGS.get((config or "").removesuffix(".yaml"))


def program_of_keys(keys: Iterable[Path]) -> Program:
    """The program that has a user's keys; PPO's where they tell nothing."""
    paths = tuple(keys)
    if any(path[0] in _PPO_SECTIONS or path[0] == "rollout" for path in paths) or _generates(paths):
        return Program.PPO
    if any(path[: len(own)] == own for path in paths for own in _SFT_KEYS):
        return Program.SFT
    return Program.SFT_ENGINE if any(path[0] in _FINE_TUNING for path in paths) else Program.PPO


def refuse_config(name: str, location: Location) -> None:
    """Raise UnsupportedError when ``name`` is the configuration of an entry point that does not train."""
    for entry_point in (GENERATION, EVALUATION):
        if name in entry_point.configs:
            raise _unsupported(entry_point, _("the configuration {name}").format(name=name), location)


def refuse_other_entry_points(keys: Mapping[Path, Location], program: str = "") -> None:
    """Raise UnsupportedError when a program of verl, or the user's keys, are of one that does not train.

    Args:
        keys: that the user sets, with their places.
        program: the module or file that the launch starts; empty where nobody says.
    """
    module = program.removesuffix(".py").replace("/", ".").lstrip(".")
    for entry_point in (GENERATION, EVALUATION):
        if any(f".{module}".endswith(f".verl.trainer.{name}") for name in entry_point.programs):
            place = next(iter(keys.values()), None)
            raise UnsupportedError(_(entry_point.does).format(program=program), location=place, hint=_(HINT))
    starting_point = _recognise(keys)
    if starting_point is not None:
        entry_point, path = starting_point
        raise _unsupported(entry_point, _("the key {key}").format(key=dotted(path)), keys[path])


def _generates(keys: Collection[Path]) -> bool:
    return (
        "data",
        "output_path",
    ) in keys  # main_generation_server shares every other key with the PPO trainer


def _recognise(keys: Mapping[Path, Location]) -> tuple[EntryPoint, Path] | None:
    """The entry point and the key that gave it away."""
    if _generates(keys):
        return GENERATION, ("data", "output_path")
    if any(path[0] in _PPO_SECTIONS for path in keys):
        return None
    for path in keys:
        if path[0] == "rollout":
            return GENERATION, path
    return (EVALUATION, ("data", "path")) if ("data", "path") in keys else None


def _unsupported(entry_point: EntryPoint, what: str, location: Location) -> UnsupportedError:
    message = _("{what} belongs to {purpose} ({modules}), which is not modelled").format(
        what=what, purpose=_(entry_point.purpose), modules=_(entry_point.modules)
    )
    return UnsupportedError(message, location=location, hint=_(HINT))
