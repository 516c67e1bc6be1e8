"""What the symbols of the terms' formulas stand for."""

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module

from tuner.memory.ledger.stated_terms import rooms_of

#: What a symbol stands for wherever no module says otherwise.
MEANINGS = {
    # the job
    "T": "tokens of a micro-batch on one GPU",
    "T_f": "tokens of the micro-batches in flight, in pieces of a stage",
    "T_c": "tokens of one chunk of the entropy",
    "T_l": "tokens of its last chunk",
    "T_r": "tokens of responses in a micro-batch, padding included",
    "W": "ranks that share one copy of the states",
    "T_p": "tensor-parallel ranks",
    "P_p": "pipeline stages",
    "v_p": "pieces that a pipeline stage is cut into",
    "n_r": "layers recomputed at once",
    # the model
    "H": "hidden width",
    "I": "width of the MLP",
    "L": "decoder layers",
    "V": "vocabulary entries",
    "V_p": "vocabulary entries of one tensor-parallel rank",
    "d": "width of a query or key head",
    "h": "attention heads",
    "k": "key-value heads",
    "E": "experts of a layer",
    "e": "experts that a token goes to",
    "I_e": "width of an expert",
    "I_s": "width of the shared experts together",
    "r_k": "rank of the compressed keys and values",
    "r_q": "rank of the compressed queries",
    "d_n": "part of a head without rotary embedding",
    "d_r": "part of a head with rotary embedding",
    "d_v": "width of a value head under latent attention",
    "h_k": "key heads of linear attention",
    "h_v": "value heads of linear attention",
    "d_k": "width of a key head of linear attention",
    "d_w": "width of a value head of linear attention",
    "k_c": "length of the convolution in linear attention",
    # parameters
    "N": "parameters, with adapters where there are any",
    "N_t": "parameters that are trained",
    "N_o": "parameters whose optimizer states one rank holds",
    "N_p": "parameters of one rank",
    "N_g": "parameters of one rank with a place in Megatron's gradient buffer",
    "U_1": "parameters of the FSDP unit gathered first",
    "U_c": "this GPU's share of that unit that is cast before it is gathered, in parameters",
    "U_l": "parameters of the largest decoder layer",
    "U_r": "parameters of the FSDP unit with the output projection",
    # bytes of one number
    "b_a": "bytes of a gradient that waits for its reduction",
    "b_c": "bytes of a number in the compute dtype",
    "b_m": "bytes of a main weight",
    "b_o": "bytes of one moment of the optimizer",
    "f_m": "share of the main weights that lives on the host",
    "f_o": "share of the moments that lives on the host",
    "b_r": "bytes of a gradient while it is reduced",
    "b_s": "bytes of a stored weight",
    "b_w": "bytes of a number of the head's own weight gradient, 0 where there is none",
    # FSDP
    "c": "copies of a unit while it is gathered",
    "p": "layers gathered ahead",
    # activations, bytes per token
    "a_L": "bytes that layers save per token whose backward pass is still to come",
    "a_b": "bytes of the batch and the rotary tables per token",
    "a_f": "bytes that a layer needs at once per token, forward",
    "a_g": "bytes of gradients in flight in a layer per token",
    "a_i": "bytes of a layer's input per token",
    "a_l": "bytes that one layer saves per token",
    "a_e": "bytes of a layer's activations and their gradients per token, late in its backward pass",
    "a_n": "bytes that the final norm saves per token",
    "a_k": "bytes that the layers of a Megatron stage keep per token, over all tensor-parallel ranks",
    "a_m": "bytes that one Megatron layer keeps per token, over all tensor-parallel ranks",
    "a_p": "bytes of what the second projection of an MLP reads, per token",
    "g_1": "bytes per token that the first projection gathers, backward",
    "g_2": "bytes per token that the second projection gathers, backward",
    "w_1": "bytes of the first projection's weight gradient on one rank",
    "w_2": "bytes of the second projection's weight gradient on one rank",
    # the output head, bytes per logit
    "logits": "the logits as the model returns them, bytes per logit",
    "n_c": "tensors of the logits' size that the model makes of them, scaling or soft-capping",
    "cloned_logits": "the clone of the logits for the cross entropy, bytes per logit",
    "scaled_logits": "the logits divided by the temperature, bytes per logit",
    "shifted_logits": "a copy of the logits without the last of each sequence, bytes per logit",
    "loss_gradient": "gradient of the loss with respect to log-softmax, bytes per logit",
    "float32_log_softmax": "log-softmax in float32, bytes per logit",
    "log_softmax": "log-softmax saved for the backward pass, bytes per logit",
    "logits_gradient": "gradient of the logits, bytes per logit",
    "scaled_gradient": "gradient of the scaled logits, bytes per logit",
    "cross_entropy_gradient": "the cross entropy's gradient, bytes per logit",
    "entropy_gradient": "the entropy's gradient, bytes per logit",
    "chunk_gradients": "gradients of the chunks until they are joined, bytes per logit",
    "softmax": "softmax, bytes per logit",
    "softmax_gradient": "gradient of softmax, bytes per logit",
    "divided_gradient": "its quotient by the temperature, bytes per logit",
    "response_logits": "copy of the logits of responses, bytes per logit",
    "cast_gradient": "gradient of the product in the dtype of the logits, bytes per logit",
    "logsumexp_copy": "float32 copy inside logsumexp, bytes per logit",
    "product": "softmax times logits, bytes per logit",
    "product_gradient": "gradient of that product, bytes per logit",
    "difference": "logits minus log-sum, inside the gradient of logsumexp, bytes per logit",
    "exponential": "exponential of that difference, bytes per logit",
    "logsumexp_gradient": "gradient of logsumexp, bytes per logit",
    "float32_logits": "logits in float32, bytes per logit",
    "slices": "slices that in-place scaling keeps, bytes per logit",
    "slice_gradient": "gradient of one chunk's slice, zero elsewhere, bytes per logit",
    "sum_of_gradients": "its sum with the cross entropy's gradient, bytes per logit",
    "chunk_gradient": "gradient of one chunk in the logits' dtype, bytes per logit",
    "slice_gradients": "gradients of those slices, bytes per logit",
    # constants and the rollout engine
    "w": "cuBLAS workspaces of the process",
    "context": "CUDA contexts with their loaded kernels",
}


def meaning(symbol: str, source: str) -> str:
    """What a symbol stands for in the formulas of a deriving function; empty where nobody said.

    A module whose formulas use a symbol in a sense of its own says so in its ``SYMBOLS``, a package for all
    of its modules; what stands nearest to the function holds.
    """
    for room in rooms_of(source):
        own = symbols_of_room(room).get(symbol)
        if own is not None:
            return own
    return MEANINGS.get(symbol, "")


@lru_cache
def symbols_of_room(room: str) -> Mapping[str, str]:
    """The symbols that a module or a package explains itself, ``"memory.host.node"``."""
    symbols: Mapping[str, str] = getattr(import_module(f"tuner.{room}"), "SYMBOLS", {})
    return symbols
