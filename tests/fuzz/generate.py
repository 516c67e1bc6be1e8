"""Makes the n-th input of a seed: a command with a configuration, a script, a run, an error or passes."""

import json
import random
from collections.abc import Callable
from functools import cache

from tests.fuzz import runs
from tests.fuzz.case import Case
from tests.fuzz.configs import changed, config, model
from tests.fuzz.jobs import document, overrides, with_secret
from tests.fuzz.printed import printed
from tests.fuzz.scripts import script
from tests.fuzz.values import as_bytes, mutated, value
from tuner.cli.formats import FORMATS
from tuner.gpus import gpu_names

RELEASES = (
    "0.3.0.post1",
    "0.4.1",
    "0.5.0",
    "0.6.1",
    "0.7.1",
    "0.8.0",
    "0.9.1",
    "9.9",
    "0",
    "x",
    "",
    "9" * 5_000,
)
_NUMBERS = (
    "--gpus-per-node", "--nodes", "--mean-prompt-length", "--mean-response-length", "--response-p95", "--tool-seconds",
    "--turns", "--tool-tokens", "--storage",
    "--images-per-prompt", "--image-pixels", "--host-memory", "--headroom", "--launch",
)  # fmt: skip
_FORMATS = {
    "advise": ("text", "json", "html"), "check": FORMATS,
    "config": ("text", "yaml", "json", "overrides"),
    "diff": ("text", "json"), "explain-oom": ("text", "json"), "estimate-memory": ("text", "json"),
    "accuracy": ("text", "json"), "rule": ("text", "json"), "model": ("text", "json"),
}  # fmt: skip
_PASS = {
    "model": "qwen2.5-0.5b", "pass": "update", "strategy": "fsdp", "world_size": 1, "model_dtype": "fp32",
    "tokens": 4096, "sequence_length": 1024, "temperature": 1.0, "gradient_checkpointing": True,
    "reshard_after_forward": True, "use_torch_compile": False, "calculate_entropy": False,
    "allocated_before_bytes": 1, "peak_allocated_bytes": 2**33,
}  # fmt: skip


def case(seed: int, number: int) -> Case:
    """The input of a seed with this number, always the same."""
    rng = random.Random(f"{seed}:{number}")
    made = rng.choices([make for make, _ in _KINDS], [share for _, share in _KINDS])[0](rng)
    if rng.random() < 0.03:
        words = list(made.words)
        place = rng.randrange(len(words))
        words[place] = mutated(rng, words[place])
        made = Case(tuple(words), made.files, made.stdin, made.secrets)
    words = tuple(word.replace("\0", "") for word in made.words)  # no program gets one with it
    return Case(
        words, made.files, made.stdin, tuple(hidden for hidden in made.secrets if hidden in made.given)
    )


def _job(rng: random.Random) -> Case:
    """One configuration in any form, to a command that takes one."""
    command = rng.choice(("advise", "advise", "check", "config", "diff"))
    words, secrets = with_secret(rng, overrides(rng))
    files: dict[str, bytes] = {}
    stdin = b""
    form = rng.random()
    if form < 0.35:
        given = ["/dev/null", *_behind(rng, words)]
    elif form < 0.45:
        given = [
            *rng.choice(([], ["python3", "-m", "verl.trainer.main_ppo"], ["A=1", "python3", "x.py"])),
            *words,
        ]
    else:
        if form < 0.7:
            name, text, more = "run.yaml", document(rng, words), ()
        else:
            text, more = script(rng, words)
            name = "run.sh"
        secrets += more
        data = as_bytes(rng, text)
        further = overrides(rng)[-2:] if rng.random() < 0.2 else []
        further += ["N=8", "arg"][: rng.choice((0, 0, 0, 1, 2))]
        if rng.random() < 0.15:
            given, stdin = ["-", *further], data
        else:
            name = rng.choice((name, name, name, "run", "run.json"))
            given, files = [name, *further], {name: data}
    if command == "diff" and files and rng.random() < 0.8:
        given += [next(iter(files)), *overrides(rng)[-1:]]
    elif command == "check" and files and rng.random() < 0.2:
        files["second.yaml"] = as_bytes(rng, document(rng, overrides(rng)))
        given.append("second.yaml")
    options, more_files = _options(rng, command)
    return Case((command, *options, *given), files | more_files, stdin, secrets)


def _run(rng: random.Random) -> Case:
    """What a run has left behind, to a command that takes a configuration or an error."""
    command = rng.choice(("advise", "advise", "check", "config", "diff", "explain-oom"))
    words, secrets = with_secret(rng, overrides(rng))
    stdin = b""
    if rng.random() < 0.7:
        text, more = runs.log(rng, words)
        secrets, data = secrets + more, as_bytes(rng, text)
        given = rng.choice(("run.log", "run.log", "run.txt", "run", "run.yaml", "-"))
        files, stdin = ({}, data) if given == "-" else ({given: data}, b"")
    else:
        given, texts = rng.choice((runs.hydra, runs.wandb))(rng, words)
        files = {name: as_bytes(rng, text) for name, text in texts.items()}
    further = overrides(rng)[-1:] if rng.random() < 0.3 else []
    if command == "diff":
        further = rng.choice(([given], [given, *further], further))
    options, more_files = _options(rng, command)
    if command == "explain-oom":
        options += rng.choice(([], [f"--message={given}"], [f"--message={next(iter(files), '-')}"]))
    behind = [given, *further] if command != "explain-oom" or rng.random() < 0.7 else []
    return Case((command, *options, *behind), files | more_files, stdin, secrets)


def _error(rng: random.Random) -> Case:
    """An error to be explained, with the job behind it or alone."""
    text, secrets = printed(rng)
    files, stdin = {}, b""
    given: list[str] = []
    if rng.random() < 0.5:
        words, more = with_secret(rng, overrides(rng))
        secrets += more
        given = ["/dev/null", *_behind(rng, words)]
        if rng.random() < 0.4:
            files["run.sh"] = as_bytes(rng, script(rng, words)[0])
            given = ["run.sh"]
    where = rng.random()
    if where < 0.4:
        files["error.txt"] = as_bytes(rng, text)
        message = "error.txt"
    elif where < 0.7:
        stdin, message = as_bytes(rng, text), "-"
    else:
        message = text
    options, more_files = _options(rng, "explain-oom")
    return Case(("explain-oom", *options, f"--message={message}", *given), files | more_files, stdin, secrets)


def _small(rng: random.Random) -> Case:
    """The commands that take no configuration."""
    commands = (
        "estimate-memory",
        "estimate-memory",
        "accuracy",
        "accuracy",
        "model",
        "model",
        "rule",
        "schema",
    )
    command = rng.choice((*commands, ""))
    if command == "model" and rng.random() < 0.8:
        return Case((command, "model", *_format(rng, command)), {"model/config.json": config(rng)})
    if command == "accuracy":
        content = {"cases": [changed(rng, _PASS) for _ in range(rng.choice((1, 1, 3)))]}
        text = json.dumps(content)
        files = {"measured.json": as_bytes(rng, mutated(rng, text) if rng.random() < 0.5 else text)}
        return Case((command, "measured.json", *_format(rng, command)), files)
    if command == "estimate-memory":
        words = [
            f"--{name}={rng.choice(('1k', '152k', value(rng)))}" for name in ("vocab", "tokens", "hidden")
        ]
        words += [f"--failed-allocation={printed(rng)[0]}"] if rng.random() < 0.4 else []
        return Case((command, *words[rng.randrange(2) :], *_format(rng, command), *model(rng, {})), {})
    return Case((command, value(rng), *_format(rng, command)))


def _behind(rng: random.Random, words: list[str]) -> list[str]:
    return words if rng.random() < 0.5 else ["--", *words]


def _options(rng: random.Random, command: str) -> tuple[list[str], dict[str, bytes]]:
    files: dict[str, bytes] = {}
    words = _format(rng, command)
    if rng.random() < 0.3:
        pair = ",0.9.1" if rng.random() < (0.9 if command == "diff" else 0.03) else ""
        words.append(f"--verl-version={rng.choice(RELEASES[:6] if rng.random() < 0.8 else RELEASES)}{pair}")
    if command == "config":
        return words, files
    gpu = rng.choice(_gpus()) if rng.random() < 0.96 else value(rng)
    words += (
        [
            f"--gpu={rng.choice(('', '', '', '', '8x', '8x', '16x', '4x', rng.choice(('0x', '9999999x', '2x'))))}{gpu}"
        ]
        if rng.random() < 0.9
        else []
    )
    for _ in range(rng.choice((0, 0, 0, 0, 0, 1, 1, 2))):
        sane = rng.random() < 0.85
        number = rng.choice((1, 2, 8, 64, 500, 4096, 0.5)) if sane else value(rng)
        words.append(f"{rng.choice(_NUMBERS)}={number}")
    if command == "advise":
        words += [
            rng.choice(
                ("--explain", "--full", "--fail-on=error", "--allow=changed", "--zero-advantage-ratio=0.5")
            )
        ]
        if rng.random() < 0.06:
            words.append(f"--failed-allocation={printed(rng)[0]}")
    if rng.random() < 0.1:
        words.append(f"--engine-version={rng.choice(('0.8.5', '0.11.0', '0.4.6.post5', value(rng)))}")
    if rng.random() < 0.2:
        words += model(rng, files)
    return (["--lang=zh", *words] if rng.random() < 0.1 else words), files


@cache
def _gpus() -> list[str]:
    return list(gpu_names())  # which reads all profiles each time


def _format(rng: random.Random, command: str) -> list[str]:
    formats = _FORMATS.get(command)
    return [f"--output-format={rng.choice(formats)}"] if formats and rng.random() < 0.6 else []


_KINDS: tuple[tuple[Callable[[random.Random], Case], int], ...] = (
    (_job, 12),
    (_run, 5),
    (_error, 4),
    (_small, 2),
)
