"""Configurations of models as ``config.json`` has them, some of their values others."""

import json
import random
from functools import cache

from tests.fuzz.values import as_bytes, mutated, value
from tuner.models import find_config, model_names


def model(rng: random.Random, files: dict[str, bytes]) -> list[str]:
    """An option that names a model, with the file of one that is no bundled one."""
    option = rng.choice(("--model", "--model", "--critic-model", "--reward-model"))
    draw = rng.random()
    if draw < 0.5:
        return [f"{option}={rng.choice(model_names())}"]
    if draw < 0.6:
        return [f"{option}={value(rng)}"]
    files["model/config.json"] = config(rng)
    return [f"{option}=model"]


@cache
def _configs() -> list[dict[str, object]]:
    return [dict(find_config(name).values) for name in model_names()]


def config(rng: random.Random) -> bytes:
    """A model's configuration with a few other values."""
    values = changed(rng, rng.choice(_configs()))
    for name in ("text_config", "vision_config"):
        if isinstance(values.get(name), dict) and rng.random() < 0.5:
            values[name] = changed(rng, values[name])
    text = json.dumps(values)
    return as_bytes(rng, mutated(rng, text) if rng.random() < 0.2 else text)


def changed(rng: random.Random, values: dict) -> dict:
    """The same with some values that are others, of another type or out of bounds."""
    others = dict(values)
    for name in rng.choices(list(values), k=rng.choice((0, 1, 2, 4))) if values else ():
        odd = (None, True, 0, -1, 1, 2.5, 10**12, 10**18, [], {}, "x", [1, 2], {"a": 1}, 1e308, value(rng))
        others[name] = rng.choice(odd)
    return others
