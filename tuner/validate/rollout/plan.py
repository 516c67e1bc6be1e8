"""A rollout as one GPU of this machine can run it: its residents, its cache, what is decoded there."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from msgspec import structs

from tuner import memory
from tuner.dtypes import DType
from tuner.language import _
from tuner.memory import PhaseEstimate, RolloutMemory, Term
from tuner.memory.process.constant import Constant
from tuner.memory.process.overhead import context
from tuner.memory.rollout.capacity import rollout_memory
from tuner.memory.rollout.kv_cache import (
    block_tokens,
    kv_bytes_per_sequence,
    kv_bytes_per_token_and_layer,
)
from tuner.units import MIB
from tuner.validate.children.devices import UNUSED_BYTES
from tuner.validate.report.schema import Machine
from tuner.validate.rollout.settings import CacheShape, DecoderShape, RolloutWork
from tuner.validate.session import Options
from tuner.workload import Phase, Workload

_ALLOCATED_OTHERWISE = ("engine_weights", "engine_activations", "kv_cache")
_WITH_A_CONTEXT = ("trainer_context", "engine_process")  # the first that is there is the worker's own
_PAGE = 2 * MIB  # the allocator takes whole ones of the driver, for each large tensor


@dataclass(frozen=True, kw_only=True)
class PlannedRollout:
    """One rollout beside its prediction.

    What is predicted goes by the hardware profile. What is run is sized as the engine would size it here:
    its memory fraction is one of this card, however large the profile says that it is.
    """

    workload: Workload
    phase: PhaseEstimate  # as predicted
    card_bytes: int  # of one GPU here
    room_bytes: int  # of it for us
    limited: bool  # whether others, or a limit, leave us less than the card

    @cached_property
    def predicted(self) -> RolloutMemory:
        """The engine's memory by the profile."""
        return rollout_memory(self.workload)

    @cached_property
    def here(self) -> Workload:
        """The job on cards of this machine's size."""
        cluster = self.workload.cluster
        measured = None
        if cluster.gpu.measured is not None:
            measured = structs.replace(cluster.gpu.measured, usable_bytes=self.card_bytes)
        card = structs.replace(cluster.gpu, memory_bytes=self.card_bytes, measured=measured)
        return structs.replace(self.workload, cluster=structs.replace(cluster, gpu=card))

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """What is predicted to be on the card at the peak of the phase."""
        return self.phase.peak.terms

    @cached_property
    def residents(self) -> tuple[tuple[str, int], ...]:
        """Stand-ins for what the worker has neither as weights nor as cache nor as its own context."""
        own: Constant = context(self.workload.cluster.gpu)
        sizes = {term.name: term.bytes for term in self.terms if term.name not in _ALLOCATED_OTHERWISE}
        holder = next((name for name in _WITH_A_CONTEXT if name in sizes), None)
        if holder is not None:
            sizes[holder] = max(0, sizes[holder] - own.typical)
        return tuple((name, size) for name, size in sizes.items() if size)

    @cached_property
    def wanted(self) -> CacheShape:
        """The cache that the engine would make here."""
        model, rollout = self.workload.model, self.workload.generator
        block = block_tokens(model, rollout)
        return CacheShape(
            layers=ceil(model.cached_layers / rollout.pipeline_parallel),
            blocks=rollout_memory(self.here).kv_tokens // rollout.data_parallel // block,
            block_tokens=block,
            token_bytes=kv_bytes_per_token_and_layer(model, rollout),
            dtype=rollout.kv_dtype,
        )

    @property
    def predicted_blocks(self) -> int:
        """Blocks of one GPU by the profile."""
        per_engine = self.predicted.kv_tokens // self.workload.generator.data_parallel
        return per_engine // self.wanted.block_tokens

    @cached_property
    def needed_bytes(self) -> int:
        """All that is there at the peak, with the cache that the engine would make here."""
        others = sum(term.bytes for term in self.terms if term.name != "kv_cache")
        return others + self.wanted.blocks * self.wanted.block_bytes

    @cached_property
    def run_blocks(self) -> int:
        """Blocks that are allocated: as many as wanted, or as there is room for."""
        if self.needed_bytes <= self.room_bytes and not self.limited:
            return self.wanted.blocks
        own = context(self.workload.cluster.gpu)
        spared = own.high - own.typical + (self.wanted.layers + len(self.terms)) * _PAGE
        missing = max(0, self.needed_bytes + spared - self.room_bytes)
        return max(0, self.wanted.blocks - ceil(missing / self.wanted.block_bytes))

    @property
    def scaled(self) -> bool:
        """Whether fewer blocks are allocated than the engine would make."""
        return self.run_blocks < self.wanted.blocks

    @property
    def longest_tokens(self) -> int:
        """The length that the engine's sequences are given room for."""
        return min(self.predicted.model_tokens, self.workload.batch.room_tokens)

    def sequences(self, blocks: int) -> int:
        """Sequences of full length that one replica runs at once with so many blocks on each of its GPUs."""
        if blocks >= self.wanted.blocks:
            return rollout_memory(self.here).concurrent_sequences
        model, rollout = self.workload.model, self.workload.generator
        held = blocks * self.wanted.block_bytes // kv_bytes_per_sequence(model, rollout, self.longest_tokens)
        return min(held, rollout.max_sequences) * rollout.data_parallel

    def work(self) -> RolloutWork:
        """What the worker is given."""
        rollout, batch = self.workload.generator, self.workload.batch
        cache = replace(self.wanted, blocks=self.run_blocks)
        mean = batch.mean_prompt_tokens + batch.mean_response_tokens / 2
        return RolloutWork(
            residents=self.residents,
            weight_bytes=self.predicted.weight_bytes,
            activation_bytes=self.predicted.activation_bytes,
            cache=cache,
            decoder=None if not_decoded(self.workload) else decoder_shape(self.workload),
            sequences=min(self.sequences(cache.blocks), self.predicted.running_sequences)
            // rollout.data_parallel,
            context_tokens=max(1, min(int(mean), self.longest_tokens - 1)),
            longest_tokens=self.longest_tokens,
        )

    def extrapolated(self) -> str | None:
        """How figures of fewer blocks become those of all."""
        if not self.scaled:
            return None
        return _("from {run_blocks:,} of {blocks:,} blocks, at the bytes that each of them took").format(
            run_blocks=self.run_blocks, blocks=self.wanted.blocks
        )


def planned_rollout(workload: Workload, machine: Machine, options: Options) -> PlannedRollout:
    """A job's rollout on one GPU of this machine; on a CPU as if it had the profile's card."""
    phase = memory.estimate(workload).phase(Phase.ROLLOUT)
    assert phase is not None  # every job has one
    card = workload.cluster.gpu.capacity_bytes
    if options.device == "cpu":
        return PlannedRollout(workload=workload, phase=phase, card_bytes=card, room_bytes=card, limited=False)
    room = options.capacity_bytes(machine)
    return PlannedRollout(
        workload=workload,
        phase=phase,
        card_bytes=machine.total_bytes,
        room_bytes=room,
        limited=room < machine.total_bytes - UNUSED_BYTES,
    )


def not_decoded(workload: Workload) -> str | None:
    """Why this model is not decoded here, where it is not: the cache is still allocated."""
    model, rollout = workload.model, workload.generator
    heads, kv_heads = _heads(workload)
    windows = bool(model.windowed_layers and model.sliding_window)
    reasons = (
        (model.latent is not None, _("its attention is latent, and the cache not one of keys and values")),
        (model.linear is not None, _("some of its layers keep a state in the place of keys and values")),
        (windows, _("some of its layers see a window of the sequence alone")),
        (model.moe is not None, _("its tokens are routed to experts")),
        (rollout.weight_dtype is DType.FLOAT8, _("the engine's weights are quantised")),
        (rollout.pipeline_parallel > 1, _("each GPU has a part of the layers")),
        (heads % kv_heads != 0, _("query heads of one GPU do not share its key heads evenly")),
    )
    return next((reason for holds, reason in reasons if holds), None)


def decoder_shape(workload: Workload) -> DecoderShape:
    """One GPU's share of the model."""
    model, rollout = workload.model, workload.generator
    heads, kv_heads = _heads(workload)
    return DecoderShape(
        layers=model.layers,
        hidden=model.hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=model.head_dim,
        intermediate=ceil(model.intermediate / rollout.tensor_parallel),
        gated=model.gated_mlp,
        vocab=ceil(model.vocab / rollout.tensor_parallel),
        vocab_shards=rollout.tensor_parallel,
        dtype=rollout.weight_dtype,
    )


def _heads(workload: Workload) -> tuple[int, int]:
    model, ranks = workload.model, workload.generator.tensor_parallel
    return ceil(model.heads / ranks), max(1, ceil(model.kv_heads / ranks))
