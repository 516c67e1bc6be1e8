"""What one rank of a Megatron grid holds."""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from tuner.model_shape import ModelShape
from tuner.workload import Engine


@dataclass(frozen=True, kw_only=True)
class LocalParameters:
    """Parameters of one rank; experts are divided by other groups than the rest."""

    dense: int
    expert: int

    @property
    def total(self) -> int:
        """All parameters of the rank."""
        return self.dense + self.expert


def stage_layers(model: ModelShape, engine: Engine) -> int:
    """Layers of the fullest pipeline stage."""
    return ceil(model.layers / engine.parallel.pipeline)


@lru_cache(maxsize=256)  # walks every layer, and is asked for by several terms of each estimate
def local_parameters(model: ModelShape, engine: Engine) -> LocalParameters:
    r"""Parameters of the fullest rank: a stage of the layers and an embedding or a head.

    .. math:: \lceil L / P \rceil \, (N_{layer} - N_{expert}) / T + V H / T
       \quad\text{and}\quad \lceil L / P \rceil \, N_{expert} / (E \, T_E)

    With a single stage the rank has both embedding and head (one matrix when they are tied).

    Source: Megatron-Core ``transformer/`` and ``models/gpt``; norms and routers, which are not
    divided, are counted as divided: under 0.1 % of any model.
    """
    parallel = engine.parallel
    layers = stage_layers(model, engine)
    sparse = min(layers, model.sparse_layers)
    expert_layer = model.expert_parameters
    # The fullest stage of a sparse model is one whose layers are all sparse.
    dense_layers = sum(
        sorted(
            (
                model.layer_parameters(i) - (expert_layer if model.is_sparse(i) else 0)
                for i in range(model.layers)
            ),
            reverse=True,
        )[:layers]
    )
    embedding = model.embedding_parameters
    if parallel.pipeline == 1:
        embedding += model.head_parameters
    return LocalParameters(
        dense=ceil((dense_layers + embedding) / parallel.tensor),
        expert=ceil(sparse * expert_layer / (parallel.expert * parallel.expert_tensor)),
    )


def optimizer_share(model: ModelShape, engine: Engine) -> int:
    """Parameters whose optimizer states one rank holds.

    The distributed optimizer divides dense parameters over data and context parallelism, experts
    over the ranks that hold the same experts.
    """
    local = local_parameters(model, engine)
    parallel = engine.parallel
    if not engine.distributed_optimizer:
        return local.total
    dense_ranks = max(1, parallel.gpus // (parallel.tensor * parallel.pipeline))
    expert_ranks = max(1, parallel.gpus // (parallel.expert * parallel.expert_tensor * parallel.pipeline))
    return ceil(local.dense / dense_ranks) + ceil(local.expert / expert_ranks)
