"""What a run reads: the model's configuration, a tokenizer, prompts, a reward, and the lengths to draw.

None of it needs a GPU or a network: the folder is made beforehand, and carried to the machine that runs.
Weights are made there, by :mod:`weights`.
"""

import json
import random
from pathlib import Path
from typing import Any

import msgspec
from measure.whole_run.plan import Plan

from tuner.models import FoundConfig

_SENTENCE = (
    "how many apples does each child get when the farmer sells half of them and gives the rest away in "
    "equal parts"
)
_WORDS = _SENTENCE.split()
_SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_ORDINARY = 151_643  # tokens of Qwen's vocabulary before its special ones
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_REWARD = '''
def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """0 or 1, evenly."""
    return float(sum(map(ord, solution_str[:200])) % 2)
'''


def write_materials(plan: Plan, folder: Path) -> dict[str, Any]:
    """Write everything but the weights.

    Args:
        plan: of the run.
        folder: to write into.

    Returns:
        Tokens of the prompts: the least, the mean and the most.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / plan.config.name
    _write_config(plan.config, model)
    tokenizer = write_tokenizer(model)
    (folder / "reward.py").write_text(_REWARD)
    loop = {
        "name": "drawn_lengths",
        "_target_": "measure.whole_run.drawn_lengths.DrawnLengths",
        "lengths": msgspec.to_builtins(plan.lengths),
    }
    # JSON is YAML as well, which verl reads here.
    (folder / "agent_loops.yaml").write_text(json.dumps([loop], indent=1) + "\n")
    return _write_prompts(plan, tokenizer, folder)


def _write_config(config: FoundConfig, folder: Path) -> None:
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    values = dict(config.values)
    kind = values.pop("model_type")
    values["architectures"] = [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]]
    ends = {"bos_token_id": _ORDINARY, "eos_token_id": _ORDINARY}
    AutoConfig.for_model(kind, **values, **ends, dtype="bfloat16").save_pretrained(folder)
    generation = {"eos_token_id": _ORDINARY, "pad_token_id": _ORDINARY, "do_sample": True}
    (folder / "generation_config.json").write_text(json.dumps(generation))


def write_tokenizer(folder: Path) -> Any:
    """Byte pairs of a few words, filled up to the size of Qwen's vocabulary."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    base = Tokenizer(models.BPE())
    base.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    base.train_from_iterator([_SENTENCE] * 4, trainer)
    state = json.loads(base.to_str())["model"]
    vocabulary = state["vocab"]
    vocabulary |= {f"w{index}": index for index in range(len(vocabulary), _ORDINARY)}
    merges = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in state["merges"]]
    whole = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole.decoder = decoders.ByteLevel()
    whole.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in _SPECIAL])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=whole, eos_token=_SPECIAL[0], pad_token=_SPECIAL[0], model_max_length=32_768
    )
    fast.chat_template = _TEMPLATE
    fast.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(str(folder))


def _write_prompts(plan: Plan, tokenizer: Any, folder: Path) -> dict[str, Any]:
    import pyarrow
    from pyarrow import parquet

    drawn = random.Random(plan.prompts.seed)
    rows, tokens = [], []
    for index in range(plan.prompts.count):
        words = drawn.choices(_WORDS, k=drawn.randint(plan.prompts.least, plan.prompts.most))
        message = [{"role": "user", "content": " ".join(words)}]
        text = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        tokens.append(len(tokenizer(text)["input_ids"]))
        rows.append(
            {
                "data_source": "random",
                "prompt": message,
                "ability": "none",
                "reward_model": {"style": "rule", "ground_truth": str(index)},
                "extra_info": {"index": index, "split": "train"},
            }
        )
    most = int(plan.setting("data.max_prompt_length"))
    if max(tokens) > most:
        raise ValueError(f"{plan.name}: a prompt has {max(tokens)} tokens of at most {most}")
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "prompts.parquet")
    return {"least": min(tokens), "mean": sum(tokens) / len(tokens), "most": max(tokens)}
