"""A configuration of NeMo-RL on the example that it inherits from: it reads and checks itself."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError
from tuner.findings import Finding, Written
from tuner.hardware import Cluster
from tuner.inputs.settings import Settings
from tuner.inputs.tree import contains, split_key
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.trainers.key_changes import KeysOfConfiguration, changed_keys
from tuner.trainers.key_facts import KeyChange, KeyState
from tuner.trainers.nemo_rl import checks, tied_batches
from tuner.trainers.nemo_rl.algorithms import distils, has_critic, learns_from_given, source_of
from tuner.trainers.nemo_rl.batches import context_ranks
from tuner.trainers.nemo_rl.cluster import shares
from tuner.trainers.nemo_rl.exemplars import exemplars
from tuner.trainers.nemo_rl.generation import engine_version
from tuner.trainers.nemo_rl.inheritance import composed
from tuner.trainers.nemo_rl.keys import MODEL
from tuner.trainers.nemo_rl.parts import free_fields, parts, quantities_of
from tuner.trainers.nemo_rl.placeholders import model_named
from tuner.trainers.nemo_rl.releases import RELEASES
from tuner.trainers.nemo_rl.workload import read
from tuner.trainers.omission import OmissionContext
from tuner.trainers.proposal_writer import ProposalWriter
from tuner.trainers.protocol import Base, LeftOut, Loaded, RolloutEngineChoice, Trainer
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.trainers.workload_part import keys_of_fields
from tuner.versions import is_version
from tuner.workload import ANY_LENGTHS, Batch, Lengths, Quantity, ServiceRole, Workload

if TYPE_CHECKING:
    from tuner.workload.place import FailurePlace
    from tuner.workload.validation import Validating

_VALUE, _TEACHER = "value.model_name", "teacher.model_name"


class LoadedNemoConfiguration(Struct, frozen=True, kw_only=True):
    """What a user gave, on the example of a bundled release.

    Its members are those of :class:`tuner.trainers.protocol.Loaded`, where they are described.
    """

    settings: Settings
    version: str
    base: Base
    model_key: str = MODEL
    critic_model_key: str = _VALUE

    @property
    def trainer(self) -> Trainer:  # noqa: D102
        from tuner.trainers import nemo_rl  # which imports this module

        return nemo_rl

    def names_another_model(self, key: str) -> bool:  # noqa: D102
        return key == self.model_key

    @property
    def validates_only(self) -> bool:  # noqa: D102
        return False

    def validated_batch(self, batch: Batch, rows: int | None) -> Batch:  # noqa: D102
        return batch

    @property
    def validating_alone(self) -> "Validating | None":  # noqa: D102
        return None

    def validation_batch_override(self, prompts: int) -> str:  # noqa: D102
        return f"grpo.val_batch_size={prompts}"

    @property
    def generates_only(self) -> bool:  # noqa: D102
        return False

    @property
    def validating(self) -> "Validating | None":  # noqa: D102
        return None

    @property
    def planned_steps(self) -> int | None:  # noqa: D102
        source = self._source
        named = source.key("batch.steps")
        if named is None or not self.settings.is_set(named):
            return None
        steps = source.integer("batch.steps", default=0, minimum=-1)  # below 1: the epochs decide
        return steps if steps > 0 else None

    def steps_over(self, rows: int) -> int | None:  # noqa: D102
        prompts = self._source.integer("batch.prompts", default=0, minimum=0)
        return (
            (rows // prompts) * self._source.integer("batch.epochs", default=1) or None if prompts else None
        )

    def model_path(self) -> str | None:  # noqa: D102
        return model_named(self.settings)

    def critic_model_path(self) -> str | None:  # noqa: D102
        return self.settings.text(_VALUE) if has_critic(self._source) else None

    def service_paths(self) -> tuple[tuple[ServiceRole, str], ...]:  # noqa: D102
        teacher = self.settings.text(_TEACHER) if distils(self._source) else None
        return () if teacher is None else ((ServiceRole.TEACHER, teacher),)

    def cluster_size(self) -> tuple[int, int]:  # noqa: D102
        parted = shares(self._source)
        return parted.gpus_per_node, parted.nodes

    def cluster_overrides(self, gpus_per_node: int, nodes: int) -> tuple[str, ...]:  # noqa: D102
        source = self._source
        if not source.flag("colocated", default=True):
            return ()  # generation takes its part of them
        asked = {"cluster.gpus_per_node": gpus_per_node, "cluster.num_nodes": nodes}
        return tuple(f"{key}={value}" for key, value in asked.items() if self.settings.get(key) != value)

    @property
    def card_vendor(self) -> str | None:  # noqa: D102
        return None

    def choose_rollout_engine(  # noqa: D102
        self, *, requested: str | None, look: bool, architecture: str = ""
    ) -> RolloutEngineChoice | None:
        if learns_from_given(self._source):
            return None
        if requested is None:
            reason = _("NeMo-RL {version} pins it").format(version=self.version)
            return RolloutEngineChoice(name="vLLM", version=engine_version(self._source), reason=reason)
        if not is_version(requested):
            raise InputError(_("{requested!r} is not a version of vLLM").format(requested=requested))
        return RolloutEngineChoice(
            name="vLLM", version=requested, reason=_("asked for {requested}").format(requested=requested)
        )

    def workload(  # noqa: D102
        self,
        *,
        model: ModelShape,
        critic_model: ModelShape | None,
        cluster: Cluster,
        rollout_engine_version: str | None = None,
        lengths: Lengths = ANY_LENGTHS,
        zero_advantage_ratio: float | None = None,
        service_models: Mapping[str, ModelShape] | None = None,
    ) -> Workload:
        return read(
            self._source,
            model=model,
            cluster=cluster,
            rollout_engine_version=rollout_engine_version,
            lengths=lengths,
            zero_advantage_ratio=zero_advantage_ratio,
            critic_model=critic_model,
            teacher_model=next(iter((service_models or {}).values()), None),
        )

    def check(self, workload: Workload) -> list[Finding]:  # noqa: D102
        return checks.run(self._source, workload)

    def override_writer(self, before: Workload) -> Callable[[Workload], Written]:  # noqa: D102
        def read_again(settings: Settings) -> Workload:
            changed = replace(self, settings=settings)
            tied_batches.expect_uncompared(self._source, changed._source)
            return changed.workload(
                model=before.model,
                critic_model=None if before.critic is None else before.critic.model,
                service_models=_teachers(before),
                cluster=before.cluster,
                rollout_engine_version=None if before.rollout is None else before.rollout.engine_version,
                lengths=before.batch.lengths,
                zero_advantage_ratio=before.batch.zero_advantage_ratio,
            )

        return ProposalWriter(
            before,
            self._source,
            parts=partial(parts, tied=tied_batches.are_tied(self._source)),
            read=read_again,
            free=free_fields,
            followers=lambda _changed: tied_batches.followers(self._source),
        ).written

    def resting_on_defaults(self, workload: Workload) -> tuple[tuple[str, object], ...]:  # noqa: D102
        unset = (key for key in self._quantities if key in self.settings and not self.settings.is_set(key))
        return tuple((key, self.settings.get(key)) for key in unset)

    def quantities(self, keys: Iterable[str]) -> dict[str, Quantity]:  # noqa: D102
        known = self._quantities
        return {key: known[key] for key in keys if key in known}

    def left_out(self, workload: Workload) -> tuple[LeftOut, ...]:  # noqa: D102
        from tuner.trainers.nemo_rl.coverage import COVERAGE  # reads the keys of all examples

        job = OmissionContext(settings=self.settings, workload=workload, version=self.version)
        return tuple(COVERAGE.left_out(job))

    def keys_of_copy(self) -> tuple[str, ...]:  # noqa: D102
        return ()

    def keys_of_fields(  # noqa: D102
        self, workload: Workload
    ) -> Mapping[tuple[str, ...], tuple[str, ...]]:
        return keys_of_fields(parts(self._source, workload), self._source, workload)

    def deciding_keys(self, place: "FailurePlace", workload: Workload) -> tuple[str, ...]:  # noqa: D102
        return self.trainer.deciding_keys(place, self.version)

    def releases_with(self, key: str) -> tuple[str, ...]:  # noqa: D102
        path = split_key(key)
        return tuple(
            version
            for version in RELEASES.versions
            if any(contains(composed(name, version), path) for name in exemplars(version))
        )

    def key_states(self, keys: Iterable[str]) -> Mapping[str, KeyState]:  # noqa: D102
        own = self._keys()
        return {key: own.state(key) for key in keys}

    def changes(self, after: Loaded) -> tuple[KeyChange, ...]:  # noqa: D102
        from tuner.trainers.nemo_rl.coverage import COVERAGE

        theirs = KeysOfConfiguration.of(
            after.settings, after.version, lambda key: COVERAGE.classification(key, after.version)
        )
        return changed_keys(self._keys(), theirs, {})

    def _keys(self) -> KeysOfConfiguration:
        from tuner.trainers.nemo_rl.coverage import COVERAGE

        return KeysOfConfiguration.of(
            self.settings, self.version, lambda key: COVERAGE.classification(key, self.version)
        )

    @property
    def _quantities(self) -> Mapping[str, Quantity]:
        source = self._source
        idle = "policy.dtensor_cfg." if source.flag("megatron") else "policy.megatron_cfg."
        known = quantities_of(generates=not learns_from_given(source))
        # a budget is that of all ranks that share a sequence, and its limits are those of one
        shared = {Quantity.TOKEN_BUDGET} if context_ranks(source) > 1 else set()
        return {
            key: quantity
            for key, quantity in known.items()
            if not key.startswith(idle) and quantity not in shared
        }

    @property
    def _source(self) -> SettingsByMeaning:
        return source_of(self.settings, self.version)


def _teachers(workload: Workload) -> dict[str, ModelShape]:
    """The teacher of a job, by its name; none where its reference is the policy as it was."""
    model = None if workload.reference is None else workload.reference.model
    return {} if model is None else {model.name: model}
