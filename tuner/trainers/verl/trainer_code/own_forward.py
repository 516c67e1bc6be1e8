"""What a copy's workers hand to the model they train and read from its output, beyond what releases do.

Liger and the trainer's fused heads put a forward pass of their own in the place of the model's. A copy whose
workers ask its model for more needs that model's own forward pass. Nothing is imported or run.
"""

import ast
from collections.abc import Iterable, Iterator

from tuner.trainers.verl.trainer_code.statements import parsed

_MODULE = "actor_module"  # the attribute that holds the model; of the engines nothing is told
_CALL = f"self.{_MODULE}("

#: What outputs of transformers and of the trainer's fused heads have.
#: verl 0.3.0.post1 to 0.7.1 ``workers/actor/dp_actor.py`` (``_forward_micro_batch``); transformers 4.52
#: ``modeling_outputs.py``.
_READ = frozenset({"logits", "log_probs", "entropy", "loss", "aux_loss", "router_logits"}) | {
    "hidden_states",
    "last_hidden_state",
    "attentions",
    "past_key_values",
    "rope_deltas",
}
#: What models of transformers take, those with towers among them, and what the trainer's fused heads do.
_TAKEN = frozenset({"input_ids", "attention_mask", "position_ids", "use_cache", "temperature"}) | {
    *("return_dict", "output_hidden_states", "output_attentions", "output_router_logits", "labels"),
    *("inputs_embeds", "past_key_values", "cache_position", "logits_to_keep", "num_logits_to_keep"),
    *("pixel_values", "pixel_values_videos", "image_grid_thw", "video_grid_thw", "second_per_grid_ts"),
    *("image_bound", "tgt_sizes", "image_sizes", "image_flags", "token_type_ids", "mm_token_type_ids"),
    *("input_features", "feature_attention_mask", "audio_feature_lengths", "rope_deltas"),
    *("cu_seqlens", "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "shift_labels"),
}


def has_own_forward(texts: Iterable[str]) -> bool:
    """Whether some worker hands its model an argument of its own, or reads an output of its own."""
    return any(_asks_for_more(text) for text in texts if _CALL in text)


def _asks_for_more(text: str) -> bool:
    tree = parsed(text)
    functions = () if tree is None else (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return any(
        not set(_handed(function)) <= _TAKEN or not set(_read(function)) <= _READ for function in functions
    )


def _calls(function: ast.FunctionDef) -> Iterator[ast.Call]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == _MODULE:
            yield node


def _handed(function: ast.FunctionDef) -> Iterator[str]:
    """The keywords of the calls, those among them that a dictionary brings under names in the text."""
    brought: set[str] = set()
    for call in _calls(function):
        for keyword in call.keywords:
            if keyword.arg is not None:
                yield keyword.arg
            elif isinstance(keyword.value, ast.Name):
                brought.add(keyword.value.id)
    for node in ast.walk(function):
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Store):
            continue
        if isinstance(node.value, ast.Name) and node.value.id in brought:
            yield from _text(node.slice)


def _read(function: ast.FunctionDef) -> Iterator[str]:
    """The attributes of what the calls give."""
    calls = {id(call) for call in _calls(function)}
    outputs = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and id(node.value) in calls
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(function):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        if id(node.value) in calls or (isinstance(node.value, ast.Name) and node.value.id in outputs):
            yield node.attr


def _text(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
