"""What gradient checkpointing and activation offload leave of a forward pass.

Symbols: :math:`T` tokens of a micro-batch, :math:`a_i` bytes of a layer's input per token, :math:`a_L`
what layers save per token whose backward pass is still to come.
"""

from tuner.model_shape import ModelShape
from tuner.workload import Checkpointing, Engine

SYMBOLS = {
    "n_i": "layers whose inputs are still held",
}


def layers_held(model: ModelShape, engine: Engine) -> int:
    """Layers whose activations are on the card when the forward pass ends.

    All; or the last alone where they go to the host, as those of a layer are freed when the next one
    is done. Under LoRA the embeddings stay besides: they are made to require a gradient, and autograd
    keeps such a leaf.

    Source: verl ``utils/activation_offload.py`` (``AsyncDoubleBufferGroupOffloadHandler``); transformers
    ``enable_input_require_grads``.
    """
    if not engine.activation_offload:
        return model.layers
    return min(1 + _leaf_inputs(engine), model.layers)


def layers_held_in_backward(model: ModelShape, engine: Engine, layer: int) -> int:
    """Layers whose activations are on the card while a layer's backward pass runs, its own included.

    From the host the layer's own have come back, and those of the layer below come back meanwhile.
    Checkpointing is reentrant there: the layer is computed again to its end, so that its output,
    as large as an input, counts as one more.

    Source: verl ``utils/activation_offload.py`` (``on_group_commit_backward``, ``ActivationHandler``);
    torch ``utils/checkpoint.py`` (``CheckpointFunction``).
    """
    if not engine.activation_offload:
        return layer + 1
    output = 1 if engine.checkpointing is Checkpointing.FULL else 0
    return min(2, layer + 1) + output + _leaf_inputs(engine)


def _leaf_inputs(engine: Engine) -> int:
    """Inputs of layers that stay on the card although they went to the host."""
    return 1 if engine.lora is not None and engine.checkpointing is Checkpointing.FULL else 0


def layer_inputs_bytes(*, n_i: int, T: int, a_i: int) -> int:
    """Inputs of layers, all that full checkpointing keeps of a forward pass.

    :math:`n_i` of them: as many as :func:`layers_held` says when the forward pass ends, and
    :func:`layers_held_in_backward` while a layer's backward pass runs.

    Source: torch ``utils/checkpoint.py`` (``CheckpointFunction``); verl ``utils/activation_offload.py``.
    """
    return n_i * T * a_i


def saved_layers_bytes(*, T: int, a_L: int) -> int:
    """What layers keep of a forward pass without checkpointing: all that each of them saves.

    With activation offload :math:`a_L` has the layers alone that are held on the card.

    Source: torch ``autograd/engine.cpp``; verl ``utils/activation_offload.py``.
    """
    return T * a_L
