"""Tells the entry points of verl apart by the keys that a user sets."""

from collections.abc import Mapping

from msgspec import Struct

from tuner.errors import Location, UnsupportedError
from tuner.inputs.tree import Path, dotted
from tuner.language import N_, _

HINT = N_(
    "advice is for verl's PPO and GRPO trainers (verl.trainer.main_ppo and recipes on its configuration)"
)

_PPO_SECTIONS = frozenset(
    {"actor_rollout_ref", "critic", "algorithm", "reward_model", "reward", "model_engine"}
)


class EntryPoint(Struct, frozen=True, kw_only=True):
    """A program of verl that is no PPO trainer."""

    purpose: str
    modules: str
    configs: frozenset[str]  # names of its primary configurations


FINE_TUNING = EntryPoint(
    purpose=N_("supervised fine-tuning"),
    modules=N_("verl.trainer.fsdp_sft_trainer or verl.trainer.sft_trainer"),
    configs=frozenset({"sft_trainer", "sft_trainer_engine"}),
)
GENERATION = EntryPoint(
    purpose=N_("offline generation"),
    modules=N_("verl.trainer.main_generation or verl.trainer.main_generation_server"),
    configs=frozenset({"generation"}),
)
EVALUATION = EntryPoint(
    purpose=N_("evaluation of generated responses"),
    modules="verl.trainer.main_eval",
    configs=frozenset({"evaluation"}),
)
_SECTIONS = (  # in this order: generation has a model section too
    (GENERATION, frozenset({"rollout"})),
    (
        FINE_TUNING,
        frozenset(
            {"model", "optim", "engine", "checkpoint", "ulysses_sequence_parallel_size", "use_remove_padding"}
        ),
    ),
)


def refuse_config(name: str, location: Location) -> None:
    """Raise UnsupportedError when ``name`` is the primary configuration of another entry point."""
    for entry_point in (FINE_TUNING, GENERATION, EVALUATION):
        if name in entry_point.configs:
            raise _unsupported(entry_point, _("the configuration {name}").format(name=name), location)


def refuse_other_entry_points(keys: Mapping[Path, Location]) -> None:
    """Raise UnsupportedError when the user's keys belong to another entry point than the PPO trainer."""
    found = _recognise(keys)
    if found is not None:
        entry_point, path = found
        raise _unsupported(entry_point, _("the key {key}").format(key=dotted(path)), keys[path])


def _recognise(keys: Mapping[Path, Location]) -> tuple[EntryPoint, Path] | None:
    """The entry point and the key that gave it away."""
    if ("data", "output_path") in keys:  # main_generation_server shares every other key with the PPO trainer
        return GENERATION, ("data", "output_path")
    if any(path[0] in _PPO_SECTIONS for path in keys):
        return None
    for entry_point, sections in _SECTIONS:
        for path in keys:
            if path[0] in sections:
                return entry_point, path
    return (EVALUATION, ("data", "path")) if ("data", "path") in keys else None


def _unsupported(entry_point: EntryPoint, what: str, location: Location) -> UnsupportedError:
    message = _("{what} belongs to {purpose} ({modules}), which is not modelled").format(
        what=what, purpose=_(entry_point.purpose), modules=_(entry_point.modules)
    )
    return UnsupportedError(message, location=location, hint=_(HINT))
