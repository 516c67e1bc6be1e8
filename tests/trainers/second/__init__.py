"""A small trainer of its own kind, which a package adds: what it takes for all commands to work with it.

It trains a policy against rewards of rules, all on the same GPUs, and is configured by a YAML file that
begins with the release that it is for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tests.trainers.second import unknown_setting
from tuner.dtypes import DType
from tuner.errors import UnsupportedError
from tuner.findings import Finding, Rule, Written
from tuner.hardware import Cluster
from tuner.inputs.overrides import Argument, Override, on_command_line, parse_overrides
from tuner.inputs.settings import Layer, Origin, Settings
from tuner.inputs.tree import Tree
from tuner.inputs.yaml_file import Document
from tuner.model_shape import ModelShape
from tuner.trainers.bundled_releases import BundledReleases, ReleaseChoice
from tuner.trainers.coverage import Coverage
from tuner.trainers.fields import COUNT, FLAG, Context, Form, Plain
from tuner.trainers.key_changes import KeysOfConfiguration, changed_keys
from tuner.trainers.key_facts import KeyChange, KeyState
from tuner.trainers.key_table import KeyTable, keys_by_meaning
from tuner.trainers.layers import Layers
from tuner.trainers.omission import IdleKeys, Omission, OmissionContext
from tuner.trainers.placement import PlacedLaunch, Placement, PoolSplit
from tuner.trainers.proposal_writer import ProposalWriter
from tuner.trainers.protocol import Base, Behaviour, LeftOut, Loaded, Reader, RolloutEngineChoice
from tuner.trainers.schema import Schema
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.trainers.workload_part import WorkloadPart, keys_of_fields
from tuner.workload import (
    ANY_LENGTHS,
    Actor,
    Backend,
    Batch,
    Batching,
    Checkpointing,
    Engine,
    FractionOf,
    HeadKind,
    Lengths,
    OutputHead,
    Parallelism,
    Pass,
    Quantity,
    Release,
    Rollout,
    RolloutEngine,
    TokenBytes,
    WeightSync,
    Workload,
)
from tuner.workload.place import FailurePlace

DEFAULTS: Tree = {
    "minirl": "1.1",
    "policy": None,
    "machines": {"gpus": 8, "nodes": 1},
    "batch": {"prompts": 256, "answers": 8, "prompt_tokens": 1024, "answer_tokens": 1024},
    "sampler": {"share": 0.5, "parallel": 1, "draft": None},
    "learner": {"tokens": 16384, "recompute": True, "moments_on_host": False},
}
TABLE = KeyTable(
    keys_by_meaning(
        {
            "fraction": "sampler.share",
            "budget": "learner.tokens",
            "recompute": "learner.recompute",
            "offload": "learner.moments_on_host",
        }
    )
)
FRACTION = Form(decode=lambda source, meaning, default: source.number(meaning, default=default))
RECOMPUTED = Form(
    decode=lambda source, meaning, default: Checkpointing.FULL if source.flag(meaning) else default,
    encode=lambda value: value is Checkpointing.FULL,
)
SHARE = Plain[Context]("memory_fraction", "fraction", FRACTION, default=0.5)
BUDGET = Plain[Context]("token_budget", "budget", COUNT, default=16384)
ENGINE = (
    Plain[Context]("checkpointing", "recompute", RECOMPUTED, default=Checkpointing.NONE),
    Plain[Context]("optimizer_offload", "offload", FLAG, default=False),
)
COVERAGE = Coverage(
    (
        Omission(
            name="the draft model",
            reason="its weights and its cache lie beside those of the policy",
            patterns=("sampler.draft >=1.1",),
        ),
    ),
    no_effect=(IdleKeys(name="release", reason="Names the release.", patterns=("minirl",)),),
    reads=lambda _key, _version: True,
)
QUANTITIES = {
    "sampler.share": Quantity.MEMORY_FRACTION,
    "learner.tokens": Quantity.TOKEN_BUDGET,
    "learner.recompute": Quantity.CHECKPOINTING,
    "learner.moments_on_host": Quantity.OPTIMIZER_OFFLOAD,
}


def parts(source: SettingsByMeaning, _workload: Workload) -> Iterator[WorkloadPart]:
    """The four fields that settings decide; the pass before the update follows the update."""
    context = Context(source=source)
    yield WorkloadPart(path=("rollout",), fields=(SHARE,), context=context)
    yield WorkloadPart(path=("actor", "update", "batching"), fields=(BUDGET,), context=context)
    yield WorkloadPart(path=("actor", "engine"), fields=ENGINE, context=context)
    yield WorkloadPart(path=("actor",), following=("log_prob",))


class LoadedMinirl(Struct, frozen=True, kw_only=True):
    """A file of minirl on the defaults of a release."""

    settings: Settings
    version: str
    base: Base = Base(name="minirl")
    model_key: str = "policy"
    critic_model_key: str = ""

    @property
    def trainer(self) -> "Minirl":
        return MINIRL

    def names_another_model(self, key: str) -> bool:
        return key == self.model_key

    @property
    def planned_steps(self) -> int | None:
        return None

    def steps_over(self, rows: int) -> int | None:
        return None

    @property
    def validating(self) -> None:
        return None

    @property
    def validates_only(self) -> bool:
        return False

    @property
    def validating_alone(self) -> None:
        return None

    def validation_batch_override(self, prompts: int) -> str:
        return f"prompts={prompts}"

    def validated_batch(self, batch: Batch, rows: int | None) -> Batch:
        return batch

    @property
    def generates_only(self) -> bool:
        return False

    @property
    def card_vendor(self) -> None:
        return None

    def model_path(self) -> str | None:
        return self.settings.text("policy")

    def critic_model_path(self) -> None:
        return None

    def service_paths(self) -> tuple[()]:
        return ()

    def cluster_size(self) -> tuple[int, int]:
        return self.settings.integer("machines.gpus", default=8), self.settings.integer(
            "machines.nodes", default=1
        )

    def choose_rollout_engine(
        self, *, requested: str | None, look: bool, **_model: str
    ) -> RolloutEngineChoice:
        return RolloutEngineChoice(name="vLLM", version=requested or "0.11.0", reason="asked for")

    def workload(
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
        context = Context(source=self._source)
        count = self.settings.integer
        batching = Batching(dynamic=True, token_budget=BUDGET.read(context), micro_batch_sequences=1)
        longest = count("batch.prompt_tokens", default=1024), count("batch.answer_tokens", default=1024)
        engine = Engine(
            backend=Backend.FSDP2,
            parallel=Parallelism(gpus=cluster.gpus, shard=cluster.gpus),
            stored_dtype=DType.FLOAT32,
            compute_dtype=DType.BFLOAT16,
            reduce_dtype=DType.FLOAT32,
            optimizer_dtype=DType.FLOAT32,
            packed=True,
            token_bytes=MINIRL.token_bytes,
            **{field.path: field.read(context) for field in ENGINE},
        )
        return Workload(
            release=Release(trainer="minirl", version=self.version),
            model=model,
            cluster=cluster,
            batch=Batch(
                prompts=count("batch.prompts", default=256),
                responses_per_prompt=count("batch.answers", default=8),
                mini_batch_prompts=count("batch.prompts", default=256),
                epochs=1,
                max_prompt_tokens=longest[0],
                max_response_tokens=longest[1],
                lengths=lengths,
                zero_advantage_ratio=zero_advantage_ratio,
            ),
            actor=Actor(
                engine=engine,
                head=OutputHead(kind=HeadKind.LOGITS),
                update=Pass(batching=batching),
                log_prob=Pass(batching=batching, entropy=True),
            ),
            reference=None,
            critic=None,
            rollout=Rollout(
                engine=RolloutEngine.VLLM,
                engine_version=rollout_engine_version or "",
                memory_fraction=SHARE.read(context),
                fraction_of=FractionOf.TOTAL,
                tensor_parallel=count("sampler.parallel", default=1),
                max_sequences=256,
                max_batched_tokens=8192,
                max_model_tokens=sum(longest),
                cuda_graphs=True,
                gpus=cluster.gpus,
            ),
            sync=WeightSync(bucket_bytes=1 << 30, gathers_whole_model=False),
        )

    def check(self, workload: Workload) -> list[Finding]:
        return unknown_setting.check(self.settings, workload)

    def override_writer(self, before: Workload) -> Callable[[Workload], Written]:
        def read(settings: Settings) -> Workload:
            return replace(self, settings=settings).workload(
                model=before.model,
                critic_model=None,
                cluster=before.cluster,
                rollout_engine_version=before.generator.engine_version,
                lengths=before.batch.lengths,
                zero_advantage_ratio=before.batch.zero_advantage_ratio,
            )

        return ProposalWriter(before, self._source, parts=parts, read=read).written

    def resting_on_defaults(self, workload: Workload) -> tuple[tuple[str, object], ...]:
        unset = (key for key in QUANTITIES if not self.settings.is_set(key))
        return tuple((key, self.settings.get(key)) for key in unset)

    def quantities(self, keys: Iterable[str]) -> dict[str, Quantity]:
        return {key: QUANTITIES[key] for key in keys if key in QUANTITIES}

    def left_out(self, workload: Workload) -> tuple[LeftOut, ...]:
        return tuple(
            COVERAGE.left_out(
                OmissionContext(settings=self.settings, workload=workload, version=self.version)
            )
        )

    def keys_of_copy(self) -> tuple[str, ...]:
        return ()

    def keys_of_fields(self, workload: Workload) -> Mapping[tuple[str, ...], tuple[str, ...]]:
        return keys_of_fields(parts(self._source, workload), self._source, workload)

    def deciding_keys(self, place: FailurePlace, workload: Workload) -> tuple[str, ...]:
        return MINIRL.deciding_keys(place, self.version)

    def releases_with(self, key: str) -> tuple[str, ...]:
        return MINIRL.bundled.versions

    def key_states(self, keys: Iterable[str]) -> Mapping[str, KeyState]:
        own = _keys(self)
        return {key: own.state(key) for key in keys}

    def changes(self, after: Loaded) -> tuple[KeyChange, ...]:
        return changed_keys(_keys(self), _keys(after), {})

    @property
    def _source(self) -> SettingsByMeaning:
        return SettingsByMeaning(settings=self.settings, version=self.version, table=TABLE)


def _keys(loaded: Loaded) -> KeysOfConfiguration:
    return KeysOfConfiguration.of(
        loaded.settings, loaded.version, lambda key: COVERAGE.classification(key, loaded.version)
    )


class MinirlConfiguration(Struct, frozen=True, kw_only=True):
    """What a user gives of minirl."""

    document: Document | None
    overrides: tuple[Override, ...]

    @property
    def trainer(self) -> "Minirl":
        return MINIRL

    @property
    def release(self) -> ReleaseChoice | None:
        named = None if self.document is None else self.document.tree.get("minirl")
        return None if named is None else replace(MINIRL.bundled.choose(str(named)), certain=True)

    @property
    def processes_per_node(self) -> None:
        return None

    def remarks(self, version: str) -> tuple[()]:
        return ()

    def adding(self, overrides: Sequence[str]) -> "MinirlConfiguration":
        more = parse_overrides(on_command_line(overrides)).overrides
        return replace(self, overrides=(*self.overrides, *more))

    def on(self, version: str) -> LoadedMinirl:
        layers = Layers(DEFAULTS, Schema(DEFAULTS))
        if self.document is not None:
            layers.add_document(self.document)
        for override in self.overrides:
            layers.add_override(override)
        settings = Settings(
            tree=layers.tree,
            defaults=DEFAULTS,
            origins=layers.origins,
            default_origin=Origin(layer=Layer.DEFAULT, text=f"default of minirl {version}"),
            unknown=tuple(layers.unknown()),
        )
        return LoadedMinirl(settings=settings, version=version)


class Minirl(Struct, frozen=True, kw_only=True):
    """The trainer itself."""

    name: str = "minirl"
    bundled: BundledReleases = BundledReleases(trainer="minirl", versions=("1.0", "1.1"))
    rules: tuple[tuple[Rule, ModuleType], ...] = ((unknown_setting.RULE, unknown_setting),)
    examples: Path = Path(__file__).parent
    token_bytes: TokenBytes = TokenBytes(whole=100, share=8)
    runs: None = None
    catalogue: None = None

    def recognises(self, document: Document | None, given: Sequence[Argument], *, program: str) -> bool:
        return (document is not None and "minirl" in document.tree) or program.startswith("minirl")

    def may_configure(self, text: str, *, yaml: bool) -> bool:
        return yaml and text.startswith("minirl:")

    def parse(
        self, document: Document | None, given: Sequence[Argument], **_launch: Any
    ) -> MinirlConfiguration:
        return MinirlConfiguration(document=document, overrides=parse_overrides(given).overrides)

    def behaviours(self, asked: str, nearest: Workload, read: Reader) -> tuple[Behaviour, ...]:
        return (Behaviour(name=f"as {nearest.release}", workload=nearest),)

    def strategy_lines(self, loaded: Loaded, workload: Workload, name: str) -> tuple[str, ...]:
        raise UnsupportedError("minirl has one strategy")

    def other_base(self, before: Loaded, after: Loaded, program: str) -> None:
        return None

    def placed(
        self, loaded: Loaded, workload: Workload, placement: Placement, split: PoolSplit
    ) -> PlacedLaunch:
        raise UnsupportedError("minirl generates where it trains")

    def place_of(self, calls: object) -> FailurePlace:
        return FailurePlace()

    def deciding_keys(self, place: FailurePlace, version: str) -> tuple[str, ...]:
        return tuple(QUANTITIES)


MINIRL = Minirl()
