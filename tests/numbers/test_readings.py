"""What every release of verl makes of a launch, field by field, as it is today.

The launches between them ask for all that is modelled. Beside them stands what each key that is read changes
when it has another value, and what a dozen keys change that have other values at once.
``UPDATE_GOLDEN=1 pytest tests/numbers`` writes it anew.
"""

import random
from collections.abc import Iterator, Sequence
from enum import Enum

import pytest
from msgspec import Struct

from tests.cli.golden import expect
from tests.numbers.test_numbers import FOLDER
from tests.trainers.launches import ALL, DYNAMIC, MEGATRON, MODEL, ROLLOUT, VERSIONS, settings_of, workload_of
from tests.trainers.reads import LAUNCHES, keys_read
from tuner.errors import TunerError
from tuner.inputs.interpolation import UnresolvedError
from tuner.inputs.settings import Settings

LEFT_OUT = {"model", "cluster"}  # which the launch does not say
CRITIC = ("algorithm.adv_estimator=gae", "critic.model.path=Qwen/Qwen2.5-7B-Instruct")
BASES = {
    "static": (*ALL["static"], *CRITIC, "critic.ppo_micro_batch_size_per_gpu=2"),
    "ppo": ALL["ppo"],
    "engines": (*ALL["ppo"], "trainer.use_legacy_worker_impl=disable", f"{ROLLOUT}.name=sglang"),
    "megatron": (*MEGATRON, *CRITIC, "critic.strategy=megatron"),
    "bridge": (
        *MEGATRON,
        *CRITIC,
        "critic.strategy=megatron",
        "trainer.use_legacy_worker_impl=disable",
        "actor_rollout_ref.actor.megatron.use_mbridge=True",
    ),
    "lora": (*DYNAMIC, f"{MODEL}.lora_rank=32"),
}
CASES = (
    ("static", "0.4.1"),
    ("ppo", "0.5.0"),
    ("engines", "0.9.1"),
    ("megatron", "0.7.0"),
    ("bridge", "0.8.0"),
    ("bridge", "0.9.1"),
    ("lora", "0.6.0"),
)
#: Words that a key may have, by the end of its name; others are numbers or switches.
WORDS = {
    "strategy": ("fsdp", "fsdp2", "megatron"),
    "dtype": ("float16", "float32", "bfloat16", "fp8", "auto"),
    "granularity": ("full", "selective"),
    "method": ("block", "uniform"),
    "mode": ("sync", "async", "separate_async", "disable"),
    "rollout.name": ("vllm", "sglang", "hf", "trtllm"),
    "quantization": ("fp8", "int8"),
    "adv_estimator": ("grpo", "gae"),
    "loss_agg_mode": ("token-mean", "seq-mean-token-mean"),
    "modules": ("[core_attn]", "[moe]", "[all-linear]"),
    "impl": ("disable", "enable", "auto"),
}
NUMBERS = {int: (0, 2, 3), float: (0.0, 0.25, 2.0)}
DRAWS = 15
CHANGED = 12  # keys in a draw


def fields(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Every field of a job with its value."""
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            if path or name not in LEFT_OUT:
                yield from fields(getattr(value, name), f"{path}.{name}" if path else name)
    elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
        for number, element in enumerate(value):
            yield from fields(element, f"{path}.{number}")
    else:
        yield path, value.value if isinstance(value, Enum) else repr(value)


def read(overrides: Sequence[str], version: str) -> dict[str, str]:
    """The fields of a launch, or why it is refused."""
    try:
        return dict(fields(workload_of(overrides, version)))
    except TunerError as error:
        return {"refused": f"{error.key}: {error.message}"}


def changes(before: dict[str, str], after: dict[str, str]) -> str:
    if "refused" in after:
        return after["refused"]
    gone = [f"-{name}" for name in before if name not in after]
    return " ".join(gone + [f"{name}={value}" for name, value in after.items() if before.get(name) != value])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", range(len(LAUNCHES)))
def test_every_release(number: int) -> None:
    lines, before = [" ".join(LAUNCHES[number])], dict[str, str]()
    for version in VERSIONS:
        after = read(LAUNCHES[number], version)
        lines.append(f"{version}: {changes(before, after)}")
        before = after
    expect(f"reads-{number:02}.txt", "\n".join(lines), folder=FOLDER)


def values(base: str, version: str) -> Iterator[str]:
    """Overrides with other values of each key that is read."""
    settings = settings_of(BASES[base], version)
    for key in sorted(keys_read(BASES[base], version)):
        yield from (f"++{key}={other}" for other in _others(settings, key))


def _others(settings: Settings, key: str) -> Iterator[str]:
    try:
        value = settings.get(key)
    except UnresolvedError:
        return
    words = next((words for end, words in WORDS.items() if key.endswith(end)), ())
    if isinstance(value, bool):
        yield str(not value)
    elif isinstance(value, int | float):
        yield from (str(other) for other in NUMBERS[type(value)] if other != value)
    elif words:
        yield from (word for word in words if word != value)
    elif value is None:
        yield from ("2", "True")


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("base", "version"), CASES)
def test_every_key_alone_and_with_others(base: str, version: str) -> None:
    before, lines, accepted = read(BASES[base], version), [], []
    for override in values(base, version):
        after = read((*BASES[base], override), version)
        if after != before:
            lines.append(f"{override}: {changes(before, after)}")
        if "refused" not in after:
            accepted.append(override)
    draw = random.Random(f"{base} {version}")
    for _ in range(DRAWS):
        drawn = draw.sample(accepted, CHANGED)
        lines.append(f"{' '.join(drawn)}: {changes(before, read((*BASES[base], *drawn), version))}")
    expect(f"reads-{base}-{version}.txt", "\n".join(lines), folder=FOLDER)
