"""Finds the bundled model whose name stands inside a longer one, as people name what they trained from it.

``checkpoints/retool-qwen-3-32b-sft/global_step_372`` is a Qwen3-32B. Nothing is guessed: a name is taken
where the sizes agree, one architecture alone fits, and nothing else in that part of the path speaks of
another model, of a quantized one, or of one with other layers.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

_WORD = re.compile(r"[a-z]+|\d+")
_PARAMETERS = re.compile(r"(?<![a-z\d])(?:\d+x)?(\d+(?:[._p]\d+)?)b(?![a-z\d])")
_ACTIVE = re.compile(r"(?<![a-z\d])a\d+(?:[._p]\d+)?b(?![a-z\d])")
_EXPERTS = re.compile(r"-a\d+(?:\.\d+)?b$")
_VERSION = re.compile(r"(?<=[a-z-])(\d)\.(\d)(?=-|$)")  # 2.5 in qwen2.5-7b, not 1.5 in qwen2-1.5b
_CACHE = re.compile(r"models--.*?--")
_LONGEST = 4096  # characters of a path, PATH_MAX of Linux; a longer text is none


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The last words of a listed name that say how a model was trained, not what it is made of.
_TRAINED = _words("instruct chat base it pt hf sft thinking preview 2507")
_FAMILIES = _words(
    """baichuan chatglm deepseek dialogpt ernie exaone falcon gemma glm gpt granite hunyuan internlm kimi
    llama llava medgemma mimo minicpm minimax mistral mixtral moonlight nemotron olmo phi qwen qwq
    smollm yi"""
)
# Words of a model that is built otherwise than the one whose name stands beside them.
_OTHERWISE = _words(
    """adapter asr audio awq bit bnb diffusion distil distill distilled draft dummy eagle embedding expanded
    gguf gptq layer layers medusa mm moe mtp multimodal mxfp nvfp omni pruned random reranker speculator tiny
    tts upscaled vision vl vla"""
)
_FEWER_BITS = re.compile(r"(?:fp|int|w)[-_]?[48](?!\d)")
# A name without a number of parameters is one of a family, such as DeepSeek-V3: these alone may stand beside
# it.
_HARMLESS = _TRAINED | _words(
    """actor ai bf checkpoint checkpoints ckpt config dist dpo fp global grpo huggingface mcore megatron merge
    merged model models ppo rl rlhf step torch verl"""
)


class Contained(Struct, frozen=True, kw_only=True):
    """A bundled model, and the part of a path that contains its name."""

    name: str
    part: str


class _Spelling(Struct, frozen=True, kw_only=True):
    """One way to write a listed name: its words in small letters."""

    words: tuple[str, ...]
    name: str
    whole: bool  # with all words of the listed name


def find_contained(path: str, configs: Mapping[str, Mapping[str, Any]]) -> Contained | None:
    """The one bundled model that a path speaks of, None where none or several fit.

    Args:
        path: parts of it are looked at from the last; the first that speaks of any model decides.
        configs: the configuration of each listed name.
    """
    if len(path) > _LONGEST:
        return None
    spellings = [spelling for name in configs for spelling in _spellings(name)]
    for part in reversed(path.replace("\\", "/").split("/")):
        own = _CACHE.sub("", part)
        name = _in_part(own.lower(), spellings, configs)
        if name is not None:
            return Contained(name=name, part=own)
        if _speaks_of_a_model(own.lower()):
            return None
    return None


@cache  # an answer may look into many texts
def _spellings(name: str) -> tuple[_Spelling, ...]:
    """How a listed name is written: whole, without the words of its training, and with joined digits."""
    lower = name.lower().removeprefix("meta-")
    parts = lower.split("-")
    texts = [lower]
    while parts[-1] in _TRAINED:
        parts.pop()
        texts.append("-".join(parts))
    return tuple(
        _Spelling(words=tuple(_WORD.findall(variant)), name=name, whole=text == lower)
        for text in dict.fromkeys([*texts, _EXPERTS.sub("", texts[-1])])
        for variant in {text, _VERSION.sub(r"\1\2", text, count=1)}
    )


def _in_part(
    part: str, spellings: Iterable[_Spelling], configs: Mapping[str, Mapping[str, Any]]
) -> str | None:
    """The listed name that a part of a path contains, where exactly one model fits."""
    words = list(_WORD.finditer(part))
    places: dict[str, list[int]] = {}  # of each word, so that no listed name is held against every word
    for number, word in enumerate(words):
        places.setdefault(word[0], []).append(number)
    fitting: dict[tuple[int, int], list[_Spelling]] = {}
    for spelling in spellings:
        starts = places.get(spelling.words[0])
        place = None if starts is None else _place(spelling.words, starts, words, part)
        if place is not None:
            fitting.setdefault(place, []).append(spelling)
    if not fitting:
        return None
    start, end = max(fitting, key=lambda place: place[1] - place[0])
    candidates = fitting[start, end]
    shapes = {_shape(configs[candidate.name]) for candidate in candidates}
    if len(shapes) > 1:
        return None
    words_of_experts = {"moe"} if "experts" in shapes.pop() else set()
    if _contradicted(part[start:end], f"{part[:start]} {part[end:]}", _OTHERWISE - words_of_experts):
        return None
    return min(candidates, key=lambda candidate: (not candidate.whole, len(candidate.name))).name


def _place(
    wanted: tuple[str, ...], starts: list[int], words: list[re.Match[str]], part: str
) -> tuple[int, int] | None:
    """From where to where these words stand in a part, on their own.

    Args:
        wanted: the words, in small letters.
        starts: which words of the part are the first one of them.
        words: all words of the part.
        part: the part of a path, in small letters.
    """
    for first in starts:
        run = words[first : first + len(wanted)]
        if tuple(word[0] for word in run) != wanted:
            continue
        start, end = run[0].start(), run[-1].end()
        alone = not (part[start - 1 : start].isalnum() and start) and not part[end : end + 1].isalnum()
        if alone and not _goes_on(part, end):
            return start, end
    return None


def _goes_on(part: str, end: int) -> bool:
    """Whether a version goes on where a name ends: DeepSeek-V3 in DeepSeek-V3.2."""
    return part[end - 1].isdigit() and re.match(r"[._]\d", part[end:]) is not None


def _contradicted(name: str, rest: str, otherwise: Collection[str]) -> bool:
    """Whether what stands beside a name speaks of another model than the name."""
    own, neighbours = set(_WORD.findall(name)), set(_WORD.findall(rest))
    sizes = {_digits(size) for size in _PARAMETERS.findall(name)}
    others = {_digits(size) for size in _PARAMETERS.findall(rest)}
    if others - sizes or _ACTIVE.search(rest) or _FEWER_BITS.search(rest):
        return True
    if not neighbours.isdisjoint(otherwise) or (neighbours & _FAMILIES) - own:
        return True
    letters = {word for word in neighbours if word.isalpha()}
    return not sizes and not letters <= _HARMLESS | own


def _digits(size: str) -> str:
    """The last digits of a size: those behind the point may belong to a version, as in ``qwen2_5_7b``."""
    return re.split(r"[._p]", size)[-1]


def _speaks_of_a_model(part: str) -> bool:
    words = set(_WORD.findall(part))
    return bool(words & (_FAMILIES | _OTHERWISE) or _PARAMETERS.search(part))


def _shape(config: Mapping[str, Any]) -> str:
    """What two configurations share that describe one architecture: all but how long sequences may be."""

    def without(values: Mapping[str, Any]) -> Any:
        return {
            key: without(value) if isinstance(value, Mapping) else value
            for key, value in sorted(values.items())
            if key != "max_position_embeddings"
        }

    return repr(without(config))
