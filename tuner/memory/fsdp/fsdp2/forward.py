"""Terms of a forward pass that depend on how FSDP2 gathers its units into buffers."""

from functools import cached_property

from msgspec import Struct

from tuner.memory.fsdp import per_token
from tuner.memory.fsdp.fsdp2 import sizes
from tuner.memory.fsdp.order import UnitOrder
from tuner.memory.fsdp.shared_terms import SharedTerms
from tuner.memory.layer import activations
from tuner.memory.ledger.stated_terms import stated
from tuner.memory.ledger.terms import Item, Term


class Fsdp2Forward(Struct, frozen=True, dict=True):
    """FSDP2's own terms of one forward pass; ``shared`` has those of FSDP1 as well."""

    shared: SharedTerms

    @property
    def order(self) -> UnitOrder:
        """What is gathered at once."""
        return self.shared.order

    @cached_property
    def copies(self) -> int:
        """Copies of a unit while it is gathered."""
        return sizes.gather_copies(self.shared.micro_batch.engine)

    @property
    def root_between_passes(self) -> Term | None:
        """The unit of the projection after its forward pass, where the release does not free it."""
        return self.shared.head_unit if self.shared.micro_batch.engine.keeps_root else None

    # -- gathers ------------------------------------------------------------------------

    @property
    def layers_kept(self) -> Term | None:
        """All units but the head's own, where nothing is resharded; of the last layer."""
        return self.shared.kept_units(self.order.model.layers - 1) if self.shared.keeps_layers else None

    @property
    def first_gather(self) -> tuple[Term | None, ...]:
        """The unit gathered first, before its weights are copied out: its buffer and this rank's share."""
        if self.shared.keeps_layers:
            return ()
        engine, unit = self.shared.micro_batch.engine, self.order.embedding
        same_dtype = engine.stored_dtype is engine.compute_dtype
        if self.copies == 1:
            cast = 0 if same_dtype else self.order.model.embedding_parameters
            return (self.shared.sized("unit_cast", sizes.cast_unit_bytes, U_e=unit, U_v=cast),)
        buffer = self._buffer("gather_buffer", unit)
        if same_dtype:
            return (buffer,)
        return buffer, self.shared.sized("cast_shards", sizes.cast_shard_bytes, U_e=unit)

    def gather(self, layer: int) -> Term:
        """A layer while it is gathered, and the buffer of the unit before it."""
        return self._gather("gathered_layer", self.order.layers[layer], self.order.before(layer))

    @property
    def tower_gather(self) -> Term | None:
        """The first block of a vision tower while it is gathered; None without one."""
        block = self.order.tower_block
        return self._gather("gathered_layer", block, self.order.embedding) if block else None

    @property
    def largest_gather(self) -> Term | None:
        """The gather of the layer that needs the most, the first apart; None of a single layer."""
        gathers = (self.gather(layer) for layer in self.order.extremes if layer)
        return max(gathers, key=lambda term: term.bytes, default=None)

    @property
    def head_gather(self) -> Term | None:
        """The output projection's own unit while it is gathered; None where it is in the root."""
        if not self.order.separate_head:
            return None
        return self._gather("head_gather", self.order.head, self.order.layers[-1])

    def _gather(self, name: str, unit: int, before: int) -> Term:
        size = sizes.gather_buffers_bytes if self.shared.keeps_layers else sizes.gather_bytes
        return self.shared.sized(name, size, c=self.copies, U_l=unit, U_a=before)

    def _buffer(self, name: str, unit: int) -> Term:
        return self.shared.sized(name, sizes.buffer_bytes, c=self.copies, U_l=unit)

    # -- what works ---------------------------------------------------------------------

    @property
    def embeddings(self) -> Term:
        """The embeddings, which the model's forward pass holds until it returns."""
        return stated(
            Item.ACTIVATIONS,
            "embeddings",
            per_token.hidden_states_bytes,
            {"T": self.shared.micro_batch.tokens, "a_i": self.shared.input_token_bytes},
            evidence=self.shared.layer_evidence,
            source=activations.layer_input_bytes,
        )

    def working(self, layer: int) -> Term:
        """A layer that works, its buffer, and the layer gathered ahead."""
        unit = self.order.layers[layer]
        if self.shared.keeps_layers:
            return self._buffer("last_buffer", unit)
        return self.shared.sized("layer_units", sizes.working_bytes, c=self.copies, U_l=unit)

    def inside(self, layer: int) -> Term:
        """What a layer needs in a forward pass without gradients, its input and the embeddings included."""
        source = activations.layer_forward_bytes
        size = source(self.order.model, self.order.engine, layer)
        return self.shared.in_layer("layer_forward", per_token.layer_forward_bytes, source, a_f=size)

    @property
    def head_units(self) -> tuple[Term | None, ...]:
        """The projection's weights and the buffer of the last gather while it works."""
        if not self.order.separate_head:
            buffer = self._buffer("last_buffer", self.order.layers[-1])
            return self.shared.whole_model, self.shared.root, buffer
        whole = self.shared.whole_model if self.shared.keeps_layers else self.shared.head_unit
        return whole, self._buffer("last_buffer", self.order.head)
