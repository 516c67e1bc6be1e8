"""What a run leaves behind: its log, Hydra's folder and wandb's files, whole and damaged."""

import json
import random
import re
from functools import cache

import yaml

from tests.corpus import launches
from tests.fuzz.jobs import document, key
from tests.fuzz.printed import printed
from tests.fuzz.values import mutated, secret, value
from tests.inputs import logs
from tuner.errors import InputError

_VERSIONS = ("0.3.0.post1", "0.4.1", "0.5.0", "0.7.1", "0.8.0", "0.9.1")
_PRINTED = 12  # configurations that a process prints; they are changed for each input
_LEAF = re.compile(r"(?<=': )(?:-?[\d.]+|'[^'\n]*'|None|True|False|\[\])(?=[,}])")
_ODD = (
    "None", "0", "-1", "True", "'x'", "[]", "{}", "{1: 2}", "()", "1e999", "nan", "-" * 300 + "1", "b'x'", "'" + "\\x00" * 9,
    "<object at 0x7f>", "np.float64(1.5)", "PosixPath('/x')", "'${a.b}'", "'???'", "9" * 400, "1" * 5_000, "[" * 150 + "]" * 150,
    "{'a': " * 120 + "1" + "}" * 120, "'a' 'b'", "'a", "1 + 1", "__import__('os').system('touch x')", "...", "1j", "''", "1_0",
)  # fmt: skip
_METRICS = (
    "timing_s/gen", "timing_s/step", "timing_s/old_log_prob", "timing_s/ref", "timing_s/update_actor",
    "timing_s/update_critic", "timing_s/values", "timing_s/adv", "timing_s/reshard", "timing_s/update_weights",
    "timing_s/save_checkpoint", "timing_s/agent_loop/num_preempted/mean", "timing/gen", "timing/step",
    "perf/max_memory_allocated_gb", "perf/max_memory_reserved_gb", "actor/perf/max_memory_allocated_gb",
    "perf/cpu_memory_used_gb", "perf/time_per_step", "prompt_length/mean", "response_length/mean",
    "response_length/max", "response_length/clip_ratio", "perf/throughput", "actor/entropy", "training/global_step",
)  # fmt: skip
_ENGINE = (
    "INFO 07-01 00:35:19 [core.py:69] Initializing a V1 LLM engine (v{v}) with config: model='x', max_seq_len={n}, x={n}",
    "INFO 07-01 [kv_cache_utils.py:634] GPU KV cache size: {n} tokens", "INFO vLLM API server version {v}",
    "INFO [kv_cache_utils.py:637] Maximum concurrency for {n} tokens per request: {f}x", "vLLM is using sleep mode",
    "[torch_memory_saver.cpp] x", "WARNING utils.py: max_total_num_tokens={n}, context_len={n}", "+ set +x",
    "INFO worker.py:267] Memory profiling takes {f} seconds, the current vLLM instance can use total_gpu_memory",
)  # fmt: skip
_PROCESSES = (
    "TaskRunner pid=247607",
    "main_task pid=1",
    "WorkerDict pid=2512, ip=10.0.0.7",
    "pid=" + "7" * 99,
)


@cache
def _dumped(number: int) -> str:
    """The configuration of a launch as verl prints it."""
    for shift in range(len(launches())):
        launch = launches()[(number * 17 + shift) % len(launches())]
        overrides = [word for word in launch["overrides"] if "=" in word and not word.startswith("~")]
        try:
            return logs.printed(_VERSIONS[number % len(_VERSIONS)], overrides)
        except (InputError, ValueError, LookupError):  # what this release has not, OmegaConf does not resolve
            continue
    raise AssertionError("no launch can be printed")


def log(rng: random.Random, words: list[str]) -> tuple[str, tuple[str, ...]]:
    """The log of a run, and the secrets in it.

    Args:
        rng: chooses what it has.
        words: the overrides that the job was started with.
    """
    process, secrets = rng.choice(_PROCESSES), ()
    parts: list[str] = []
    if rng.random() < 0.3:
        parts.append("+ python3 -m verl.trainer.main_ppo " + " ".join(words))
    if rng.random() < 0.75:
        text, secrets = _configuration(rng)
        parts.append(logs.by_ray(text, process, coloured=rng.random() < 0.5) if rng.random() < 0.7 else text)
    if rng.random() < 0.15:
        parts.append(f"Error executing job with overrides: {words!r}")
    for _ in range(rng.choice((0, 1, 3))):
        line = rng.choice(_ENGINE).format(
            v=rng.choice(("0.8.5", "0.11.0", value(rng))), n=_number(rng), f=_number(rng)
        )
        parts.append(logs.by_ray(line, process))
    parts += _steps(rng, process)
    if rng.random() < 0.3:
        error, more = printed(rng)
        parts, secrets = [*parts, error], secrets + more
    rng.shuffle(parts) if rng.random() < 0.1 else None
    text = "\n".join([*parts, ""])
    if rng.random() < 0.03:
        text *= max(1, rng.choice((100_000, 2_000_000)) // max(1, len(text)))
    if rng.random() < 0.15:
        begin = rng.randrange(len(text) + 1)
        text = text[begin:] if rng.random() < 0.5 else text[:begin]
    return (mutated(rng, text) if rng.random() < 0.35 else text), secrets


def _configuration(rng: random.Random) -> tuple[str, tuple[str, ...]]:
    """A printed configuration, some of its values others."""
    text, secrets = _dumped(rng.randrange(_PRINTED)), ()
    places = list(_LEAF.finditer(text))
    for place in sorted(rng.sample(places, rng.choice((0, 0, 1, 2, 5))), key=lambda place: -place.start()):
        draw = rng.random()
        if draw < 0.1:
            hidden = secret(rng)
            written, secrets = repr(hidden), (*secrets, hidden)
            text = f"{text[: place.start()]}{written}, 'api_key': {written}{text[place.end() :]}"
            continue
        written = repr(value(rng)) if draw < 0.4 else rng.choice(_ODD)
        text = text[: place.start()] + written + text[place.end() :]
    return text, secrets


def _steps(rng: random.Random, process: str) -> list[str]:
    """Lines with the metrics of steps, some of them with a progress bar before them."""
    lines = []
    odd, names = rng.random() < 0.3, rng.sample(_METRICS, rng.randrange(1, len(_METRICS)))
    write = rng.choice(("{:.3f}", "{!r}", "np.float64({!r})"))
    for number in range(1, rng.choice((1, 1, 4, 8, 1_500 if rng.random() < 0.05 else 5))):
        written = {
            name: _number(rng) if odd and rng.random() < 0.2 else write.format(rng.uniform(0, 100))
            for name in names
        }
        line = f"step:{number} - " + " - ".join(f"{name}:{text}" for name, text in written.items())
        bar = f"Training Progress:   1%|          | {number}/100 [05:05<8:24:08, 305.54s/it]\r"
        lines.append((bar if rng.random() < 0.3 else "") + logs.by_ray(line, process))
    return lines


def _number(rng: random.Random) -> str:
    return rng.choice(
        ("0", "1", "4096", "40,960", "-1", "nan", "inf", "1e300", "9" * 400, "131072", "0.5", value(rng))
    )


def hydra(rng: random.Random, words: list[str]) -> tuple[str, dict[str, str]]:
    """What to give of a run that Hydra kept, and its files."""
    files = {"config.yaml": document(rng, words)}
    if rng.random() < 0.8:
        listed = yaml.safe_dump(words, allow_unicode=True)
        files["overrides.yaml"] = mutated(rng, listed) if rng.random() < 0.3 else listed
    if rng.random() < 0.8:
        files["hydra.yaml"] = f"hydra:\n  job:\n    name: {rng.choice(('main_ppo', value(rng)))}\n"
    if rng.random() < 0.15:
        files.pop(rng.choice(list(files)))
    return _given(rng, "outputs/10-00-00/.hydra", files)


def wandb(rng: random.Random, words: list[str]) -> tuple[str, dict[str, str]]:
    """What to give of a run that wandb kept, and its files."""
    text = document(rng, words)
    lines = ["wandb_version: 1", "_wandb: {desc: null, value: {cli_version: 0.19.11}}"]
    for line in text.splitlines():
        if line[:1].isalpha() and line.endswith(":"):
            lines += [line, rng.choice(("  desc: null", "  desc: null", "  x: 1")), "  value:"]
        else:
            lines.append(f"  {line}" if line.startswith(" ") else line)
    summary = {
        name: rng.choice((1, 0.5, 300, -1, None, "NaN", [], {"a": 1}, 1e300))
        for name in rng.sample(_METRICS, 9)
    }
    told = json.dumps({"_step": rng.choice((10, -1, None)), key(rng): value(rng), **summary})
    files = {
        "config.yaml": "\n".join([*lines, ""]),
        "wandb-summary.json": mutated(rng, told) if rng.random() < 0.3 else told,
        "wandb-metadata.json": json.dumps({"args": words, "program": value(rng), "gpu": value(rng)}),
    }
    for name in rng.sample(list(files), rng.choice((0, 0, 1, 2))):
        files.pop(name)
    return _given(rng, "wandb/run-20250701_100000-abc/files", files)


def _given(rng: random.Random, folder: str, files: dict[str, str]) -> tuple[str, dict[str, str]]:
    placed = {f"{folder}/{name}": text for name, text in files.items()}
    if rng.random() < 0.1:
        placed |= {f"{folder}2/{name}": text for name, text in files.items()}
    return rng.choice((folder, folder.rpartition("/")[0], folder.partition("/")[0], ".", *placed)), placed
