"""What ``--trace`` counted in transformers' implementation of a model, in place of the formulas."""

from msgspec import Struct


class LayerBytes(Struct, frozen=True, kw_only=True):
    """Bytes per token of one decoder layer in bfloat16, under flash attention."""

    saved: int  # kept from the forward to the backward pass, input and output of the layer aside
    forward: int  # most at once in a forward pass without gradients, beyond the layer's input
    backward: int  # most at once in the backward pass, beyond what was saved
    recomputed: int  # the same where the backward pass first computes again what was saved

    def at_rank(self, per_rank: "LayerBytes", rank: int) -> "LayerBytes":
        """The bytes with adapters of a rank, given what each rank adds."""
        return LayerBytes(
            saved=self.saved + rank * per_rank.saved,
            forward=self.forward + rank * per_rank.forward,
            backward=self.backward + rank * per_rank.backward,
            recomputed=self.recomputed + rank * per_rank.recomputed,
        )


class TracedLinear(Struct, frozen=True, kw_only=True):
    """A linear layer inside a decoder layer, by its last name."""

    name: str
    inputs: int
    outputs: int


class TracedLayer(Struct, frozen=True, kw_only=True):
    """One kind of decoder layer: all layers with the same modules and weights."""

    parameters: int
    routed_parameters: int  # those of routed experts among them
    linears: tuple[TracedLinear, ...]
    trained: LayerBytes  # all weights are trained
    # Weights are frozen and every linear layer has an adapter: bytes at rank 0, and bytes per rank.
    # None where the layer cannot take adapters.
    adapted: tuple[LayerBytes, LayerBytes] | None

    def bytes_per_token(self, lora_rank: int | None) -> LayerBytes | None:
        """The bytes when all weights are trained (None), or adapters of a rank; None: not counted."""
        if lora_rank is None:
            return self.trained
        return None if self.adapted is None else self.adapted[0].at_rank(self.adapted[1], lora_rank)


class TracedModel(Struct, frozen=True, kw_only=True):
    """Counts of a whole model; parameters as ``model.parameters()`` lists them."""

    kinds: tuple[TracedLayer, ...]
    kind_of_layer: tuple[int, ...]  # index into ``kinds``, one entry per decoder layer
    embedding_parameters: int
    head_parameters: int  # 0 where the head shares the embedding's matrix and has no bias
    other_parameters: int  # outside the layers: final norm, learned positions
    final_norm_saved: int  # bytes per token between the last layer and the head, its input included
    final_norm_frozen: int  # the same where no weight is trained, which leaves the head's input out
    torch: str  # versions that were counted with
    transformers: str

    def layer(self, index: int) -> TracedLayer:
        """The counts of one decoder layer, 0-based."""
        return self.kinds[self.kind_of_layer[index]]
