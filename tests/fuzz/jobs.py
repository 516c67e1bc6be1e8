"""Settings of a job, from real launches and the keys of all releases, as words and as YAML."""

import random
from functools import cache
from typing import Any

import yaml

from tests.corpus import flattened_defaults, launches
from tests.fuzz.values import mutated, secret, value

_BASE = (
    "actor_rollout_ref.model.path=Qwen/Qwen3-8B",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "algorithm.adv_estimator=grpo",
)
_DEEPEST = 60  # levels that PyYAML writes without running out of stack


@cache
def keys() -> tuple[str, ...]:
    """Every key of every release."""
    return tuple(sorted({key for flat in flattened_defaults().values() for key in flat}))


@cache
def _telling() -> tuple[str, ...]:
    """Keys that people set, which are those that decide most."""
    return tuple(sorted({_key(word) for launch in launches() for word in launch["overrides"]}))


def _key(word: str) -> str:
    return word.partition("=")[0].lstrip("+~")


def key(rng: random.Random) -> str:
    draw = rng.random()
    if draw < 0.6:
        return rng.choice(_telling())
    if draw < 0.85:
        return rng.choice(keys())
    if draw < 0.95:
        name = rng.choice(keys())
        place = rng.randrange(len(name))
        return name[:place] + rng.choice(("", "x", ".", "_", "@", "/", "[0]")) + name[place + 1 :]
    return mutated(rng, rng.choice(keys()))


def overrides(rng: random.Random) -> list[str]:
    """The overrides of a launch, some of them changed."""
    words = list(_BASE if rng.random() < 0.5 else rng.choice(launches())["overrides"])
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 10))):
        draw = rng.random()
        if rng.random() < 0.5:  # what a person may set, so that the way through the model is taken too
            words.append(_plausible(rng))
            continue
        if draw < 0.75:
            sign = rng.choice(("", "", "", "+", "++"))
            words.append(f"{sign}{key(rng)}={value(rng)}")
        elif draw < 0.8:
            words.append(f"~{key(rng)}" + rng.choice(("", "=", f"={value(rng)}")))
        elif draw < 0.9 and words:
            place = rng.randrange(len(words))
            words[place] = mutated(rng, words[place])
        elif words:
            words.pop(rng.randrange(len(words)))
    return words


def _plausible(rng: random.Random) -> str:
    """A value that some launch has, or a number near it."""
    word = rng.choice(rng.choice(launches())["overrides"])
    name, equals, given = word.partition("=")
    if given.isdecimal():
        return f"{name}={rng.choice((0, 1, 2, 3, int(given) // 2, int(given) * 2, int(given) * 1_000))}"
    return f"{name}{equals}{given}"


def with_secret(rng: random.Random, words: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """The same words, now and then with a secret among them."""
    if rng.random() > 0.15:
        return words, ()
    hidden = secret(rng)
    form = rng.choice(
        ("+trainer.wandb_api_key={}", "trainer.experiment_name={}", "+ray_init.env.HF_TOKEN={}", "data.x={}",
         "+a.b='{}'", "trainer.nnodes={}", "actor_rollout_ref.model.path={}", "+trainer.notes='key {} of me'",
         "trainer.logger=[console,{}]", "actor_rollout_ref.actor.strategy={}", "+x.y={{a:{}}}", "+a.{}=1")
    )  # fmt: skip
    return [*words, form.format(hidden)], (hidden,)


def document(rng: random.Random, words: list[str]) -> str:
    """The overrides as a file of YAML, at times one that is damaged."""
    tree: dict[str, Any] = {}
    deepest = 0
    for word in words:
        name, _, raw = word.partition("=")
        path = _key(name).split(".")
        deepest = max(deepest, len(path))
        if deepest <= _DEEPEST:
            _put(tree, path, _read(raw))
    draw = rng.random()
    if draw < 0.3 or deepest > _DEEPEST:
        text = "".join(f"{line}\n" for line in _flat(words))
    else:
        text = yaml.safe_dump(tree, default_flow_style=rng.random() < 0.1, allow_unicode=True)
    if rng.random() < 0.1:
        text = f"{key(rng).split('.')[0]}: {value(rng)}\n{text}"
    if rng.random() < 0.06:
        text += rng.choice(("---\na: 1\n", "a: &x {b: *x}\n", "a: &x 1\nb: *x\n", "<<: {a: 1}\n", "? [a]\n: 1\n",
                            "defaults: [ppo_trainer, _self_]\n", "defaults: [/etc/passwd]\n", "a: !!set {b}\n",
                            "a: !!python/object/apply:os.system [touch x]\n", "hydra: {run: {dir: .}}\n",
                            "# @package _global_\n", "a: 2024-01-01\n", "%YAML 9.9\n---\n"))  # fmt: skip
    return mutated(rng, text) if rng.random() < 0.35 else text


def _put(tree: dict[str, Any], path: list[str], leaf: object) -> None:
    for part in path[:-1]:
        below = tree.setdefault(part, {})
        if not isinstance(below, dict):
            return
        tree = below
    tree[path[-1]] = leaf


def _read(raw: str) -> object:
    if len(raw) > 1_000 or sum(map(raw.count, "[{")) > _DEEPEST:
        return raw
    try:
        return yaml.safe_load(raw)
    except (yaml.YAMLError, ValueError, LookupError):  # what PyYAML itself makes of "!!int ''"
        return raw


def _flat(words: list[str]) -> list[str]:
    return [f"{_key(word)}: {word.partition('=')[2]}" for word in words]
