"""Every row of the tables of verl's fields: what it sets is what the release reads back."""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from operator import attrgetter
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tests.trainers.launches import ALL, DYNAMIC, MEGATRON, VERSIONS, settings_of, workload_of
from tests.trainers.schemas import unknown_keys
from tuner.dtypes import DType
from tuner.trainers.fields import (
    COUNT,
    DTYPE,
    FLAG,
    MEBIBYTES,
    NEGATED_FLAG,
    SIZES,
    Field,
    Form,
    Plain,
    Ruled,
)
from tuner.trainers.proposal_writer import NotExpressible
from tuner.trainers.verl.fields.batching import ACTOR, BATCH, BATCHING
from tuner.trainers.verl.fields.fsdp import FSDP, FULL_CHECKPOINTING
from tuner.trainers.verl.fields.head import HEAD
from tuner.trainers.verl.fields.megatron import MEGATRON as MEGATRON_FIELDS
from tuner.trainers.verl.fields.reference import REFERENCE
from tuner.trainers.verl.fields.role import EngineContext
from tuner.trainers.verl.fields.rollout_fields import ROLLOUT
from tuner.trainers.verl.fields.sync import SYNC
from tuner.trainers.verl.parts import parts
from tuner.trainers.verl.source import ROLES, ReleaseSettings, source_of
from tuner.trainers.verl.write import proposal_writer
from tuner.trainers.workload_part import WorkloadPart
from tuner.units import MIB
from tuner.workload import Attention, Backend, Checkpointing, HeadKind, Workload

pytestmark = pytest.mark.sampled(6)

TABLES: tuple[tuple[Field[Any], ...], ...] = (
    *(BATCH, ACTOR, BATCHING, HEAD, ROLLOUT, SYNC),
    *(table[role] for table in (FSDP, MEGATRON_FIELDS) for role in ROLES),
)
CRITIC = ("algorithm.adv_estimator=gae", "critic.model.path=a/model")
STAGES = tuple(
    f"{role}.megatron.pipeline_model_parallel_size=2"
    for role in ("actor_rollout_ref.actor", "actor_rollout_ref.ref", "critic")
)
RECOMPUTED = tuple(
    f"+{role}.megatron.override_transformer_config.recompute_{name}"
    for role in ("actor_rollout_ref.actor", "critic")
    for name in ("granularity=full", "method=uniform", "num_layers=1")
)
OWN_GPUS = ("actor_rollout_ref.hybrid_engine=False", "+rollout.nnodes=1", "+rollout.n_gpus_per_node=4")
LAUNCHES = {
    **ALL,
    "megatron critic": (*MEGATRON, *CRITIC),
    "megatron stages": (*MEGATRON, *CRITIC, *STAGES, *RECOMPUTED),
    "new workers": (*ALL["ppo"], "trainer.use_legacy_worker_impl=disable"),
    "unpacked": (*ALL["static"], "actor_rollout_ref.model.use_remove_padding=False"),
    "generation apart": (*DYNAMIC, *OWN_GPUS),
}

# -- values ----------------------------------------------------------------------------------

BOOLEANS = st.booleans()
SHARES = st.integers(1, 100).map(lambda hundredths: hundredths / 100)
FEW = st.sampled_from((1, 2, 4, 8))  # of 8 GPUs
MANY = st.integers(1, 2**20)

OF_FORM: Mapping[Form, st.SearchStrategy[Any]] = {
    COUNT: MANY,
    FLAG: BOOLEANS,
    NEGATED_FLAG: BOOLEANS,
    DTYPE: st.sampled_from(DType),
    SIZES: st.sets(st.integers(1, 1024), min_size=1, max_size=8).map(lambda sizes: tuple(sorted(sizes))),
    MEBIBYTES: st.integers(1, 2**16).map(lambda size: size * MIB),
    FULL_CHECKPOINTING: st.sampled_from((Checkpointing.NONE, Checkpointing.FULL)),
}
OF_RULE: Mapping[str, st.SearchStrategy[Any]] = {
    "prompts": MANY,
    "mini_batch_prompts": MANY,
    "update.entropy": BOOLEANS,
    "log_prob": st.none(),
    "dynamic": BOOLEANS,
    "micro_batch_sequences": MANY,
    "backend": st.sampled_from(Backend),
    "fused_layers": BOOLEANS,
    "attention": st.sampled_from(Attention),
    **dict.fromkeys(
        (f"parallel.{size}" for size in ("tensor", "pipeline", "virtual_pipeline", "context")), FEW
    ),
    **dict.fromkeys((f"parallel.{size}" for size in ("expert", "expert_tensor")), FEW),
    "parallel.shard": FEW,
    "parallel.ulysses": FEW,
    "streamed_offload": BOOLEANS,
    "optimizer_offload_fraction": SHARES,
    "checkpointing": st.sampled_from(Checkpointing),
    "recompute_first_layers": st.none() | MANY,
    "recompute_layers": MANY,
    "fused_rotary": BOOLEANS,
    "kind": st.sampled_from(HeadKind),
    "checkpointed": BOOLEANS,
    "chunk_tokens": st.none() | MANY,
    "memory_fraction": SHARES,
    "capture_sizes": OF_FORM[SIZES],
    "max_model_tokens": st.none() | MANY,
    "chunked_prefill": BOOLEANS,
    "prefix_caching": BOOLEANS,
    "frees_memory": BOOLEANS,
    "sleeps_with_cache": BOOLEANS,
    "cuda_graphs": BOOLEANS,
    "weight_dtype": st.sampled_from((DType.BFLOAT16, DType.FLOAT8)),
    "kv_dtype": st.sampled_from((DType.BFLOAT16, DType.FLOAT8)),
    "gathers_whole_model": BOOLEANS,
}


def values_of(field: Field[Any]) -> st.SearchStrategy[Any]:
    """Values that a field may have; sizes of a grid are few enough for the GPUs."""
    if isinstance(field, Ruled):
        return OF_RULE[field.path]
    parallel = field.path.startswith("parallel.") or field.path.endswith("_parallel")
    return FEW if parallel else OF_FORM[field.form]


def test_there_are_values_for_exactly_the_rules_that_there_are() -> None:
    assert set(OF_RULE) == {field.path for table in TABLES for field in table if isinstance(field, Ruled)}


# -- rows in the launches that have them -------------------------------------------------------


class Row(Struct, frozen=True, kw_only=True):
    """A row of a table in one launch under one release."""

    launch: str
    version: str
    part: WorkloadPart
    field: Field[Any]

    @property
    def name(self) -> str:
        """The field, and the table of its engine where it has one."""
        context = self.part.context
        megatron = isinstance(context, EngineContext) and context.backend is Backend.MEGATRON
        return f"{'.'.join(self.part.path)}.{self.field.path}{' under Megatron' if megatron else ''}"

    @property
    def stands(self) -> Any:
        """What the field is."""
        return attrgetter(self.field.path)(self.part.of(before(self.launch, self.version)))

    @property
    def key(self) -> str | None:
        """The first key that is set for the field, None where the release has none."""
        part = self.part.of(before(self.launch, self.version))
        meaning, _ = self.field.assignments(self.part.context, part)[0]
        return source(self.launch, self.version).key(meaning)


@cache
def before(launch: str, version: str) -> Workload:
    return workload_of(LAUNCHES[launch], version)


@cache
def source(launch: str, version: str) -> ReleaseSettings:
    return source_of(settings_of(LAUNCHES[launch], version), version)


@cache
def rows_of(launch: str, version: str) -> tuple[Row, ...]:
    return tuple(
        Row(launch=launch, version=version, part=part, field=field)
        for part in parts(source(launch, version), before(launch, version))
        for field in part.fields
        if field is not REFERENCE  # which can only be taken away: see the examples of its rule
    )


@cache
def by_name(versions: tuple[str, ...] = VERSIONS) -> Mapping[str, list[Row]]:
    named: dict[str, list[Row]] = {}
    for launch, version in product(sorted(LAUNCHES), versions):
        for row in rows_of(launch, version):
            named.setdefault(row.name, []).append(row)
    return named


#: All names, from two releases: every process that collects the tests asks for them.
NAMED = by_name((VERSIONS[0], VERSIONS[-1]))


def test_the_launches_have_every_row() -> None:
    met = {id(row.field) for same_field in by_name().values() for row in same_field}
    assert not [field.path for table in TABLES for field in table if id(field) not in met]
    assert NAMED.keys() == by_name().keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_row_sets_keys_that_the_release_knows(version: str) -> None:
    keys = {row.key for launch in LAUNCHES for row in rows_of(launch, version)}
    assert not unknown_keys(sorted(name for name in keys if name is not None), version)


# -- plain rows: encode and decode are inverse ---------------------------------------------------

PLAIN = sorted(name for name, same_field in NAMED.items() if isinstance(same_field[0].field, Plain))


@pytest.mark.parametrize("name", PLAIN)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_a_plain_field_reads_as_it_was_set(name: str, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from([row for row in by_name()[name] if row.key is not None]))
    field, context, key = row.field, row.part.context, row.key
    assert isinstance(field, Plain) and context is not None and key is not None
    value, default = data.draw(values_of(field)), data.draw(values_of(field))
    changed = context.source.settings.with_value(key, field.form.encode(value))
    now = replace(context, source=replace(context.source, settings=changed))
    assert field.form.decode(now.source, field.key_meaning(now), default) == value
    if field.heeded is None or field.heeded(now):
        assert field.read(now) == value


# -- all rows: what is written is read -----------------------------------------------------------


def with_value(node: Any, path: tuple[str, ...], value: Any) -> Any:
    name, *rest = path
    return replace(node, **{name: with_value(getattr(node, name), tuple(rest), value) if rest else value})


def proposal(workload: Workload, row: Row, value: Any) -> Workload:
    """A workload with another value of one field."""
    if row.part.of(workload) is None:  # another field of the proposal took the part away
        return workload
    return cast(Workload, with_value(workload, (*row.part.path, *row.field.path.split(".")), value))


def check_read_back(launch: str, version: str, after: Workload) -> bool:
    """Whether there are overrides for a proposal; if so, the release must read them as it."""
    start, own = before(launch, version), source(launch, version)
    try:
        writer = proposal_writer(start, own.settings, version=version)
        overrides = writer.written(after).overrides
    except NotExpressible:
        return False
    read = workload_of((*LAUNCHES[launch], *overrides), version)
    assert read == writer.with_release_facts(after, read), overrides
    return bool(overrides)


def other_values(row: Row) -> Iterator[Any]:
    """Values that a field does not have, enough of them that a release that heeds it takes one."""
    values: tuple[Any, ...] = (
        True,
        False,
        *Backend,
        *Checkpointing,
        *HeadKind,
        *Attention,
        *DType,
        1,
        2,
        4,
        256,
        4000,
    )
    now = row.stands
    if row.field.path in ("log_prob", "capture_sizes"):
        values = (None, (1, 2, 4))
    elif now is None or isinstance(now, float) or row.field.path == "bucket_bytes":
        values = (0.3, 512, 256 * MIB)
    for value in values:
        if value != now and (value is None or now is None or type(value) is type(now)):
            yield value


def is_told(row: Row, value: Any) -> bool:
    """Whether the release can be told a value, alone or in all fields that the same key decides."""
    start = before(row.launch, row.version)
    if check_read_back(row.launch, row.version, proposal(start, row, value)):
        return True
    after = start
    for other in rows_of(row.launch, row.version):
        if other.key == row.key:
            after = proposal(after, other, value)
    return check_read_back(row.launch, row.version, after)


# What else an engine is under Megatron it cannot be without it.
TOLD = sorted(name for name in NAMED if not name.endswith("engine.backend under Megatron"))


@pytest.mark.parametrize("name", TOLD)
def test_some_release_can_be_told_each_field(name: str) -> None:
    told = (is_told(row, value) for row in by_name()[name] if row.key for value in other_values(row))
    assert any(told), "no launch has overrides for this field"


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_fields_changed_together_are_read_back(data: st.DataObject) -> None:
    launch, version = data.draw(st.sampled_from(sorted(LAUNCHES))), data.draw(st.sampled_from(VERSIONS))
    after = before(launch, version)
    for row in data.draw(
        st.lists(st.sampled_from(rows_of(launch, version)), min_size=1, max_size=4, unique_by=id)
    ):
        after = proposal(after, row, data.draw(values_of(row.field)))
    check_read_back(launch, version, after)
