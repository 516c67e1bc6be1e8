"""What a job prints when memory runs out, as it is pasted: tracebacks, prefixes of Ray, secrets in between."""

import random

from tests.fuzz.values import SECRET_NAMES, digits, mutated, secret

_LINES = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {a} GiB. GPU 0 has a total capacity of {b} GiB "
    "of which {c} GiB is free. Process 7 has {d} GiB memory in use. Of the allocated memory {e} GiB is allocated "
    "by PyTorch, with {f} MiB allocated in private pools (e.g., CUDA Graphs), and {g} GiB is reserved by PyTorch "
    "but unallocated.",
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {a} MiB (GPU {n}; {b} GiB total capacity; "
    "{c} GiB already allocated; {d} GiB free; {e} GiB reserved in total by PyTorch)",
    "HIP out of memory. Tried to allocate {a} GiB.", "RuntimeError: CUDA error: out of memory",
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
    "ValueError: To serve at least one request with the models's max seq len ({n}), ({a} GiB KV cache is needed, "
    "which is larger than the available KV cache memory ({b} GiB). Based on the available memory, the estimated "
    "maximum model length is {n}.",
    "The model's max seq len ({n}) is larger than the maximum number of tokens that can be stored in KV cache ({n})",
    "ValueError: Free memory on device cuda:0 ({a}/{b} GiB) on startup is less than desired GPU memory utilization "
    "({f}, {c} GiB).", "CUDA Error: out of memory at /w/csrc/cumem_allocator.cpp:{n}",
    "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    "[torch_memory_saver.cpp] CUresult error: 2 (out of memory)", "Cuda failure 2 'out of memory'",
    "CUDA out of memory occurred when warming up sampler with {n} dummy requests.", "exit code: -9 (SIGKILL)",
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node "
    "(IP: 10.0.0.1, ID: x) where the task was running was {a}GB / {b}GB ({f}), which exceeds the threshold",
    "Prefill out of memory. Try to lower your batch size.", "torch.AcceleratorError: CUDA error: out of memory",
)  # fmt: skip
_CALLS = (
    "compute_log_prob", "update_actor", "update_policy", "entropy_from_logits", "generate_sequences", "wake_up",
    "logprobs_from_logits", "_forward_micro_batch", "sync_weights", "load_model", "step", "backward", "x" * 300,
    "_initialize_kv_caches", "determine_available_memory", "init_model", "all_gather_into_tensor", "<module>",
)  # fmt: skip


def printed(rng: random.Random) -> tuple[str, tuple[str, ...]]:
    """A text, and the secrets in it."""
    lines: list[str] = []
    for _ in range(rng.choice((0, 1, 3, 12, 400))):
        call = rng.choice(_CALLS)
        line = rng.randrange(2_000)
        lines.append(f'  File "/verl/workers/{rng.choice(("actor", "engine"))}.py", line {line}, in {call}')
        lines.append(f"    {call}(data)")
    lines += [_message(rng) for _ in range(rng.choice((1, 1, 2, 40)))]
    secrets: tuple[str, ...] = ()
    if rng.random() < 0.3:
        hidden = secret(rng)
        secrets = (hidden,)
        form = rng.choice(
            ("export {}={}", "{}={} python3 x", "{}: {}", '"{}": "{}"', '  File "/x/{}/{}.py", line 3, in f')
        )
        lines.insert(rng.randrange(len(lines) + 1), form.format(rng.choice(SECRET_NAMES), hidden))
        if rng.random() < 0.2:
            lines[-1] += f" {hidden}"
    prefix = rng.choice(
        ("", "", "\x1b[36m(WorkerDict pid=1, ip=10.0.0.1)\x1b[0m ", "(TaskRunner pid=2) ", "> ", "| ")
    )
    text = "\n".join(prefix + line for line in lines)
    return (mutated(rng, text) if rng.random() < 0.5 else text), secrets


def _message(rng: random.Random) -> str:
    figures = {name: _figure(rng) for name in "abcdefg"}
    return rng.choice(_LINES).format(n=rng.choice((0, 1, 7, 4096, 262144, 10**12, digits(rng))), **figures)


def _figure(rng: random.Random) -> str:
    draw = rng.random()
    if draw < 0.85:
        return f"{rng.uniform(0, rng.choice((1, 100, 1e6))):.2f}"
    return rng.choice(("0", "0.00", "nan", "inf", "-1", "1,024.5", "1e400", "", digits(rng)))
