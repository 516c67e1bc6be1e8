"""Weights and gradients under FSDP2, unit by unit, as torch gathers, reduces and frees them.

A unit is one decoder layer; embedding and output projection are units of their own, or stay in the
root with the final norm. Symbols: :math:`U_l` parameters of the layer that works, :math:`U_a` of the
unit that worked before it, in a forward pass, or is above it, in a backward pass, :math:`U_b` of the
unit below; :math:`U_r` of the unit that holds the output projection, :math:`U_e` of the one that holds
the embedding; :math:`U_k` of all units whose backward pass is not done; :math:`b_c` bytes of the
compute dtype, :math:`b_r` of the reduce dtype, :math:`b_s` of the stored dtype; :math:`c` is 2, the
weights and the buffer they are gathered into, and 1 on a single GPU, which gathers nothing.
"""

from functools import lru_cache
from math import ceil

from msgspec import Struct

from tuner.memory.fsdp import units
from tuner.memory.layer.backward_stages import trained_parameters
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine


def gather_bytes(unit: int, before: int, engine: Engine) -> int:
    r"""While a unit is gathered in a forward pass: its weights, its buffer, and the buffer before it.

    .. math:: b_c \left(c \, U_l + (c - 1) \, U_a\right)

    The buffer of a gather is kept until the next unit's weights have been copied out of theirs: a
    local variable holds it. The weights of the unit before are gone by then.

    Source: torch ``_fsdp_param_group.py`` (``wait_for_unshard``, ``prev_all_gather_state``).
    """
    copies = units.gather_copies(engine)
    return engine.compute_dtype.bytes * (copies * unit + (copies - 1) * before)


def cast_shard_bytes(unit: int, engine: Engine) -> int:
    r"""What a rank puts into the gather of a unit: its share in the compute dtype.

    .. math:: b_c \lceil U_e / W \rceil

    Nothing where the share is stored in that dtype, or is the whole unit. It is freed when the buffer
    has it, before the weights are copied out.

    Source: torch ``_fsdp_param.py`` (``all_gather_inputs``), ``_fsdp_collectives.py``
    (``foreach_all_gather``).
    """
    if engine.stored_dtype is engine.compute_dtype or units.gather_copies(engine) == 1:
        return 0
    return engine.compute_dtype.bytes * ceil(unit / engine.parallel.shard)


def working_bytes(unit: int, prefetched: int, engine: Engine) -> int:
    r"""Inside a unit in a forward pass: its weights, its buffer, and with forward prefetch the next one.

    .. math:: b_c \, (c \, U_l + p \, U_l)

    Source: torch ``_fsdp_param_group.py`` (``wait_for_unshard``), ``_fsdp_state.py`` (``_pre_forward``).
    """
    return engine.compute_dtype.bytes * (units.gather_copies(engine) + prefetched) * unit


def buffer_bytes(unit: int, engine: Engine) -> int:
    r"""The buffer that the last gather leaves: :math:`b_c \, (c - 1) \, U_l`.

    The model's own forward pass frees it when it returns; the output projection works before that.

    Source: torch ``_fsdp_state.py`` (``_post_forward``).
    """
    return engine.compute_dtype.bytes * (units.gather_copies(engine) - 1) * unit


def whole_bytes(unit: int, engine: Engine) -> int:
    r"""A unit's weights, or its gradient, whole: :math:`b_c U`.

    Source: torch ``_fsdp_param.py`` (``init_unsharded_param``).
    """
    return engine.compute_dtype.bytes * unit


def reduced_bytes(unit: int, engine: Engine) -> int:
    r"""A unit's gradient in the reduce dtype: :math:`b_r U_a`.

    What a reduce-scatter reads is kept until the backward pass of the unit below is done.

    Source: torch ``_fsdp_param_group.py`` (``post_backward``, ``reduce_scatter_state``).
    """
    return engine.reduce_dtype.bytes * unit


def reduction_bytes(unit: int, engine: Engine) -> int:
    r"""While the gradient of the root is reduced.

    .. math:: b_r U_e + \max\left(b_c U_e,\; b_r \lceil U_e / W \rceil\right)

    Its copy in the reduce dtype; beside it first the gradient itself, then the share of the sum. The
    unit's weights have been freed before.

    Source: torch ``_fsdp_collectives.py`` (``foreach_reduce``), ``_fsdp_param_group.py``
    (``post_backward``).
    """
    compute, reduce = engine.compute_dtype.bytes, engine.reduce_dtype.bytes
    return reduce * unit + max(compute * unit, reduce * ceil(unit / engine.parallel.shard))


def matrix_reduction_bytes(unit: int, engine: Engine) -> int:
    r"""While the gradient of a unit of one matrix is reduced, the embedding or the output projection.

    .. math:: (b_c + b_r) \, U + b_r \lceil U / W \rceil

    As :func:`reduction_bytes`, but the gradient is there to the end: a local variable holds that of a
    unit's last parameter.

    Source: torch ``_fsdp_collectives.py`` (``foreach_reduce``, ``unsharded_grad``).
    """
    compute, reduce = engine.compute_dtype.bytes, engine.reduce_dtype.bytes
    return (compute + reduce) * unit + reduce * ceil(unit / engine.parallel.shard)


def upper_gradient_bytes(trained: int, waiting: int, engine: Engine) -> int:
    r"""Reduced gradients of the units above.

    .. math:: b_s \left(\lceil N_t / W \rceil - \lceil U_k / W \rceil\right)

    Source: torch ``_fsdp_collectives.py`` (``foreach_reduce``, ``new_sharded_grad``).
    """
    ranks = engine.parallel.shard
    return engine.stored_dtype.bytes * (ceil(trained / ranks) - ceil(waiting / ranks))


def all_reduced_bytes(trained: int, waiting: int, engine: Engine) -> int:
    r"""What the all-reduces between copies of the states have worked on.

    .. math:: b_r \left(\lceil N_t / W \rceil - \lceil U_k / W \rceil\right)

    Every unit holds its own until the whole backward pass is done. It is the gradient itself, unless
    that has another dtype or is added to one of an earlier micro-batch.

    Source: torch ``_fsdp_param_group.py`` (``_all_reduce_state``, ``finalize_backward``),
    ``_fsdp_collectives.py`` (``foreach_reduce``, ``all_reduce_input``).
    """
    ranks = engine.parallel.shard
    return engine.reduce_dtype.bytes * (ceil(trained / ranks) - ceil(waiting / ranks))


def holds_all_reduced(engine: Engine, *, accumulates: bool) -> bool:
    """Whether what was all-reduced is something beside the gradients; ``accumulates``: onto earlier ones."""
    if engine.backend is not Backend.FSDP2 or engine.parallel.shard == engine.parallel.gpus:
        return False
    return accumulates or engine.stored_dtype is not engine.reduce_dtype


def deferred_gradient_bytes(waiting: int, engine: Engine) -> int:
    r"""Full gradients of earlier micro-batches that wait for their reduction: :math:`b_r U_k`.

    Source: torch ``_fsdp_param.py`` (``to_accumulated_grad_if_needed``).
    """
    return engine.reduce_dtype.bytes * waiting


def embedding_gradients(model: ModelShape) -> int:
    """Gradients of the embedding's matrix that exist at once: one, or three of a shared matrix."""
    return 3 if model.shares_embedding else 1


def embedding_gradient_bytes(matrix: int, times: int, engine: Engine) -> int:
    r"""Gradients of the embedding at the end of the backward pass: :math:`n_g b_c U_v`.

    :math:`U_v` are the parameters of the embedding. Of a matrix that is the output projection, too,
    :math:`n_g = 3`: autograd keeps the projection's gradient until the embedding's has come, and adds
    them out of place. Otherwise :math:`n_g = 1`.

    Source: torch ``autograd/input_buffer.cpp`` (``InputBuffer::add``), ``EmbeddingBackward.cpp``.
    """
    return times * engine.compute_dtype.bytes * matrix


class Units(Struct, frozen=True):
    """The units of one model, in the order of the forward pass."""

    model: ModelShape
    engine: Engine

    @property
    def separate_head(self) -> bool:
        """Whether the output projection is a unit of its own."""
        return units.wraps_head(self.model, self.engine)

    @property
    def separate_embedding(self) -> bool:
        """Whether the embedding is a unit of its own; it is where the projection is."""
        return units.wraps_embedding(self.model, self.engine)

    @property
    def head(self) -> int:
        """The unit that holds the output projection."""
        return units.head_unit_parameters(self.model, self.engine)

    @property
    def embedding(self) -> int:
        """The unit that holds the embedding, the first to be gathered."""
        return units.first_unit_parameters(self.model, self.engine)

    @property
    def last(self) -> int:
        """Parameters outside the layers whose backward pass comes after theirs."""
        alone = self.separate_embedding and not self.separate_head
        return self.embedding + self.head if alone else self.embedding

    @property
    def layers(self) -> tuple[int, ...]:
        """Parameters of every decoder layer."""
        return self.model.parameters_by_layer

    def trained(self, count: int) -> int:
        """``count`` parameters outside the layers, as far as they have gradients."""
        return count if self.engine.lora is None else 0

    def before(self, layer: int) -> int:
        """The unit gathered before a layer in a forward pass."""
        return self.layers[layer - 1] if layer else self.embedding

    def above(self, layer: int) -> int:
        """Trained parameters of the unit whose backward pass comes before a layer's."""
        if layer + 1 < self.model.layers:
            return trained_parameters(self.model, self.engine, layer + 1)
        return self.trained(self.head) if self.separate_head else 0

    def below(self, layer: int) -> int:
        """The unit gathered ahead in the backward pass of a layer; the root is whole already."""
        return self.layers[layer - 1] if layer else self.embedding if self.separate_embedding else 0

    def waiting(self, layer: int) -> int:
        """Trained parameters whose gradients are not reduced while a layer's backward pass runs."""
        if self.engine.lora is not None:
            return (layer + 1) * trained_parameters(self.model, self.engine, layer)
        return sum(self.layers[: layer + 1]) + self.last

    def kept(self, layer: int) -> int:
        """Parameters that are whole in a layer's backward pass where the forward pass frees nothing."""
        return sum(self.layers[: layer + 1]) + self.last

    def turns(self, kinds: tuple[object, ...]) -> tuple[int, ...]:
        """Layers that can need the most: of all that are alike, with their neighbours, the first and last.

        Args:
            kinds: the kind of every layer.
        """
        return _turns(kinds)


@lru_cache(maxsize=256)
def _turns(kinds: tuple[object, ...]) -> tuple[int, ...]:
    found: dict[tuple[object, ...], list[int]] = {}
    all_kinds = (None, *kinds, None)
    for layer in range(len(kinds)):
        found.setdefault(all_kinds[layer : layer + 3], []).append(layer)
    return tuple(sorted({end for layers in found.values() for end in (layers[0], layers[-1])}))
