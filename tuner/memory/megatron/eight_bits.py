"""Weights in 8 bits that lie beside those in 16, where Transformer Engine multiplies in 8 bits.

A weight is cast once for all micro-batches of an optimizer step, and the place that it was cast to is kept
for the next one. Symbols: :math:`N_l` parameters of a rank that products read.
"""

from math import ceil

from tuner.evidence import Evidence
from tuner.memory.ledger.stated_terms import stated
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.megatron.grid import local_parameters
from tuner.model_shape import ModelShape
from tuner.workload import Engine

SYMBOLS = {"N_l": "parameters of the rank's layers", "n_w": "bytes of a weight in 8 bits, in both layouts"}


def cast_weight_bytes(*, n_w: int, N_l: int) -> int:
    """Weights of the layers in 8 bits: as the forward pass reads them, and transposed.

    Those of embedding and head have 16 bits. Scales of blocks are not counted.

    Source: Transformer Engine ``pytorch/module/base.py`` (``get_weight_workspace``, ``_fp8_workspaces``),
    ``pytorch/tensor/float8_blockwise_tensor.py`` (``rowwise_usage``, ``columnwise_usage``).
    """
    return n_w * N_l


def cast_weights(model: ModelShape, engine: Engine, role: str) -> Term:
    """What an engine keeps of its weights in 8 bits; ``role`` begins the name."""
    outside = ceil((model.parameters - model.decoder_parameters) / engine.parallel.tensor)
    stages = engine.parallel.pipeline
    edges = outside if stages == 1 else 0  # of several the fullest is taken to be one between
    numbers = {"n_w": engine.cast_weight_bytes, "N_l": max(0, local_parameters(model, engine).total - edges)}
    size, name = cast_weight_bytes, f"{role}_cast_weights"
    return stated(Item.PARAMETERS, name, size, numbers, evidence=Evidence.HEURISTIC)
