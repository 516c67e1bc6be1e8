"""A decoder without attention: an embedding, layers of two matrices, a head, sharded as verl does it."""

from collections.abc import Mapping

import torch
from measure.readings import device
from torch import nn

HIDDEN, INTERMEDIATE, LAYERS, VOCABULARY = 2048, 8192, 8, 131_072
SMALL = 64  # a dry run divides every width by this


class Layer(nn.Module):
    """A norm and an MLP."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden, bias=False)
        self.up = nn.Linear(hidden, intermediate, bias=False)
        self.down = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return states + self.down(torch.relu(self.up(self.norm(states))))


class Decoder(nn.Module):
    """The model; on a machine without a GPU a small one."""

    def __init__(self) -> None:
        super().__init__()
        small = 1 if torch.cuda.is_available() else SMALL
        hidden, vocabulary = HIDDEN // small, VOCABULARY // small
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(Layer(hidden, INTERMEDIATE // small) for _ in range(LAYERS))
        self.head = nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states = self.embedding(ids)
        for layer in self.layers:
            states = layer(states)
        return self.head(states)


def numbers_of(model: Decoder, ranks: int) -> Mapping[str, int]:
    """The symbols of the formulas, read off the model that is not yet sharded."""
    embedding = model.embedding.weight.numel()
    layer = sum(weight.numel() for weight in model.layers[0].parameters())
    return {
        "N": sum(weight.numel() for weight in model.parameters()),
        "W": ranks,
        "U_r": embedding + model.head.weight.numel(),
        "U_l": layer,
        "E_l": model.layers[0].up.weight.numel(),
        "E_v": embedding,
        "E": embedding,
        "b_s": 4,
    }


def as_fsdp1(model: Decoder) -> nn.Module:
    """A unit for each layer, float32 stored, bfloat16 computed, over a device mesh."""
    from functools import partial

    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

    mesh = init_device_mesh(device().type, (torch.distributed.get_world_size(),), mesh_dim_names=("fsdp",))
    return FullyShardedDataParallel(
        model.to(device()),
        auto_wrap_policy=partial(transformer_auto_wrap_policy, transformer_layer_cls={Layer}),
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        device_id=device(),
        device_mesh=mesh,
        use_orig_params=False,
    )


def as_fsdp2(model: Decoder) -> nn.Module:
    """A unit for each layer and one for the rest."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(device().type, (torch.distributed.get_world_size(),), mesh_dim_names=("fsdp",))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = model.to(device())
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def trained(model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer after one step, its states on the card."""
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.zeros(1, 8, dtype=torch.long, device=device())
    model(ids).float().sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return optimizer
