"""Settings as one release of verl reads them, with the generation of workers that they pick."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from tuner.inputs.settings import Settings
from tuner.inputs.tree import Path, contains
from tuner.trainers.key_table import KeyTable
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.trainers.verl.keys import key, table_of
from tuner.trainers.verl.packed_models import packed_models
from tuner.trainers.verl.programs import Program, program_of
from tuner.trainers.verl.releases import ENGINE_PREVIEW, PREVIEWS, reaches

_T = TypeVar("_T")
Role = Literal["actor", "ref", "critic", "reward"]
ROLES: tuple[Role, ...] = ("actor", "ref", "critic")
_VEOMNI: Path = ("actor_rollout_ref", "actor", "veomni")  # of its configuration alone


class ReleaseSettings(SettingsByMeaning, frozen=True, kw_only=True):
    """Settings and the release of verl that reads them; 0.7 with its new workers is one of PREVIEWS."""

    v1_trainer: bool  # the trainer of 0.9 and later that ignores the critic's batch keys
    program: Program = Program.PPO  # whose keys count
    veomni: bool = False  # the configuration is that of VeOmni
    reference_by_hand: bool = False  # a copy of verl that wraps the reference without CPU offload
    reference_for_kl: bool = False  # a copy of verl that builds the reference where a KL term is asked for
    packed_models: tuple[str, ...] | None = None  # the types that a copy packs; None where it packs any
    repeats_micro_batches: bool = False  # a copy that multiplies micro-batches by the responses of a prompt
    budgets_scale_loss: bool = False  # a copy that divides the loss by micro-batches of a fixed size always

    def since(self, version: str) -> bool:
        """Whether the release is this one or newer."""
        return reaches(self.version, version)

    def is_veomni(self, role: Role) -> bool:
        """Whether VeOmni runs the model of a role, whose keys stand in a section of its own."""
        return self.veomni and role != "reward"

    @property
    def engine_workers(self) -> bool:
        """Whether the model engines run the models, instead of the legacy workers or a trainer of its own."""
        if self.program is Program.PPO:
            return self.since(ENGINE_PREVIEW)
        return self.program is Program.SFT_ENGINE

    def part(self, name: str, reader: Callable[..., _T], *arguments: Any) -> _T:
        """What a reader makes of this source and its arguments, by a name of its own.

        It is asked again only where these or the values that it looked at are others.
        """
        given = (self.version, self.v1_trainer, self.program, *self._of_copy, *arguments)
        return self.settings.part(name, given, lambda: reader(self, *arguments))

    @property
    def _of_copy(self) -> tuple[object, ...]:
        """What the code of a copy says, which no value of a key tells."""
        return (
            self.reference_by_hand,
            self.reference_for_kl,
            self.packed_models,
            self.repeats_micro_batches,
            self.budgets_scale_loss,
        )


def source_of(settings: Settings, version: str) -> ReleaseSettings:
    """Settings under a release, with the generation of workers that they pick.

    Raises:
        InputError: a switch that picks the trainer or its workers has a value of the wrong type.
    """
    program = program_of(settings.defaults)
    if program.fine_tunes:
        veomni = _tunes_by_veomni(settings)
        return ReleaseSettings(
            settings=settings,
            version=version,
            table=_veomni_table(program) if veomni else table_of(program),
            v1_trainer=False,
            program=program,
            veomni=veomni,
        )
    workers = key("legacy_workers", version)
    if workers is not None and settings.text(workers, default="auto") == "disable":
        version = PREVIEWS.get(version, version)
    v1 = key("v1_trainer", version)
    veomni = contains(settings.defaults, _VEOMNI)
    return ReleaseSettings(
        settings=settings,
        version=version,
        table=_veomni_table(program) if veomni else table_of(program),
        veomni=veomni,
        v1_trainer=v1 is not None and settings.flag(v1, default=True),
        reference_by_hand=_moves_reference_by_hand(settings),
        reference_for_kl=_asks_for_reference(settings),
        packed_models=packed_models(settings),
        repeats_micro_batches=_repeats_micro_batches(settings),
        budgets_scale_loss=_budgets_scale_loss(settings),
    )


def _moves_reference_by_hand(settings: Settings) -> bool:
    """Whether a copy of verl leaves the reference on the GPU unless ``param_offload`` moves it.

    Every release that is bundled wraps it with CPU offload under FSDP. Copies of verl from before 0.2 do not.
    """
    has, file = settings.has_statement, "fsdp_workers"
    if has is None:
        return False
    return has("_is_ref _is_offload_param", file) and not has("CPUOffload role", file)


def _asks_for_reference(settings: Settings) -> bool:
    """Whether a copy of verl has no reference where neither the loss nor the reward has a KL term.

    Releases from 0.4.0 on have none; copies of verl from between 0.3.0.post1 and it have the same lines.
    """
    has = settings.has_statement
    return has is not None and has("RefPolicy use_kl_in_reward use_kl_loss", "main_ppo")


def _repeats_micro_batches(settings: Settings) -> bool:
    """Whether a copy of verl takes every response of so many prompts into a micro-batch.

    Source: copies of verl 0.1 ``workers/fsdp_workers.py`` (``log_prob_micro_batch_size *= rollout.n``); in no
    release that is bundled.
    """
    has = settings.has_statement
    return has is not None and has("log_prob_micro_batch_size rollout n", "fsdp_workers")


def _budgets_scale_loss(settings: Settings) -> bool:
    """Whether a copy of verl divides the loss of a micro-batch without asking how many a budget makes.

    Source: copies of verl 0.1 ``workers/actor/dp_actor.py`` (``update_policy``: ``policy_loss /
    self.gradient_accumulation``); verl 0.3.0.post1 and later weight by ``len(data) / ppo_mini_batch_size``.
    """
    has, file = settings.has_statement, "dp_actor"
    if has is None or not has("policy_loss gradient_accumulation", file):
        return False
    return not has("policy_loss ppo_mini_batch_size", file)


def _tunes_by_veomni(settings: Settings) -> bool:
    """Whether the configuration of fine-tuning is that of VeOmni, which names its class."""
    named = settings.text("engine._target_") if contains(settings.defaults, ("engine",)) else None
    return named is not None and named.endswith(".VeOmniEngineConfig")


def _veomni_table(program: Program) -> KeyTable:
    from tuner.trainers.verl.veomni_keys import veomni_table  # few jobs run that engine

    return veomni_table(program)
