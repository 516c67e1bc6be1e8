"""Activations of a micro-batch: its tokens, times the bytes that one of them takes.

How many bytes a token takes is derived in :mod:`tuner.memory.layer`, or was counted by a trace.
"""


def batch_bytes(*, T: int, a_b: int) -> int:
    """The batch itself and the rotary tables."""
    return T * a_b


def hidden_states_bytes(*, T: int, a_i: int) -> int:
    """One tensor of hidden states."""
    return T * a_i


def layer_forward_bytes(*, T: int, a_f: int) -> int:
    """What a layer needs at once in a forward pass without gradients."""
    return T * a_f


def final_norm_bytes(*, T: int, a_n: int) -> int:
    """What the final norm saves."""
    return T * a_n


def saved_layer_bytes(*, T: int, a_l: int) -> int:
    """What one layer saves."""
    return T * a_l


def layer_backward_bytes(*, T: int, a_g: int) -> int:
    """Gradients in flight in a layer's backward pass."""
    return T * a_g


def layer_remains_bytes(*, T: int, a_e: int) -> int:
    """What is left of a layer's activations, and their gradients, late in its backward pass."""
    return T * a_e
