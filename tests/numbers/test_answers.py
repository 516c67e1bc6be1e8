"""What ``explain-oom``, ``diff`` and ``advise`` on a log answer, number by number, as it is today.

Errors of every kind and place beside jobs that fit and jobs that do not; a job on two releases and with
another setting; runs that were faster, slower and larger than the model has them. Words are left out: other
tests hold them. ``UPDATE_GOLDEN=1 pytest tests/numbers`` writes the listings anew.
"""

import json

import pytest

from tests.cli.golden import expect
from tests.cli.runner import run
from tests.inputs.logs import TIMED, log
from tests.numbers.leaves import lines
from tests.numbers.test_numbers import FOLDER
from tests.trainers.launches import ACTOR, ALL, MODEL, ROLLOUT

pytestmark = pytest.mark.sampled(6)

TUNING = (
    "--config-name=sft_trainer_engine",
    "model.path=Qwen/Qwen2.5-7B-Instruct",
    "data.train_batch_size=256",
    "data.max_length=8192",
    "data.max_token_len_per_gpu=16384",
    "data.train_files=x.parquet",
)
#: Launches by name, with the card and the release that they are asked about.
JOBS = {
    "static": (ALL["static"], "h100-sxm", "0.7.1"),
    "ppo": (ALL["ppo"], "a100-sxm-40g", "0.9.1"),
    "lora": (ALL["lora"], "h100-sxm", "0.6.1"),
    "sglang": (ALL["sglang"], "h200-sxm", "0.9.1"),
    "megatron": (ALL["megatron"], "h100-sxm", "0.9.1"),
    "tight": ((*ALL["dynamic"], f"{ROLLOUT}.gpu_memory_utilization=0.9"), "a100-sxm-80g", "0.5.0"),
    "fine-tuning": (TUNING, "h100-sxm", "0.9.1"),
}
#: The innermost calls of a stack: file, function and line of the program.
PLACES = {
    "anywhere": (),
    "entropy": (
        ("verl/workers/engine_workers.py", "compute_log_prob", "self.actor.infer_batch(data)"),
        ("verl/utils/torch_functional.py", "entropy_from_logits", "torch.logsumexp(logits, dim=-1)"),
    ),
    "update": (
        ("verl/workers/actor/dp_actor.py", "update_policy", "loss.backward()"),
        ("torch/autograd/graph.py", "_engine_run_backward", "engine.run_backward(*args)"),
    ),
    "optimizer": (
        ("verl/workers/fsdp_workers.py", "update_actor", "metrics = self.actor.update_policy(data)"),
        ("verl/workers/actor/dp_actor.py", "_optimizer_step", "self.actor_optimizer.step()"),
        ("torch/optim/adamw.py", "_init_group", "state = torch.zeros_like(p)"),
    ),
    "layer": (
        ("verl/workers/fsdp_workers.py", "compute_ref_log_prob", "self.ref_policy.compute_log_prob(data)"),
        ("transformers/models/qwen2/modeling_qwen2.py", "forward", "self.down_proj(self.act_fn(x))"),
    ),
    "attention": (
        ("verl/workers/fsdp_workers.py", "update_critic", "self.critic.update_critic(data)"),
        ("transformers/integrations/sdpa_attention.py", "sdpa_attention_forward", "attention(query, key)"),
    ),
    "waking": (
        ("verl/workers/rollout/vllm_rollout.py", "wake_up", "self.engine.wake_up(tags=['kv_cache'])"),
    ),
    "syncing": (("verl/workers/fsdp_workers.py", "update_weights", "self.rollout.update_weights(params)"),),
    "trial": (
        ("verl/workers/fsdp_workers.py", "init_model", "self._build_rollout()"),
        ("vllm/v1/worker/gpu_model_runner.py", "profile_run", "self._dummy_run(self.max_num_tokens)"),
    ),
    "building": (
        ("verl/workers/fsdp_workers.py", "init_model", "self._build_model_optimizer()"),
        ("verl/workers/fsdp_workers.py", "_build_model_optimizer", "module = auto.from_pretrained(path)"),
    ),
    "tuning": (
        ("verl/trainer/sft_trainer.py", "fit", "output = self.training_client.train_batch(data)"),
        ("torch/nn/functional.py", "cross_entropy", "torch._C._nn.cross_entropy_loss(input, target)"),
    ),
}
LINE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {0}. GPU 0 has a total capacity of {1} of "
    "which {2} is free.{5} Of the allocated memory {3} is allocated by PyTorch, and {4} is reserved by "
    "PyTorch but unallocated."
)
ALONE, BESIDE = (
    " Process 7 has 70.25 GiB memory in use.",
    " Process 7 has 30 GiB memory in use. Process 9 has 40 GiB",
)
#: What was asked for, the card, what of it was free, allocated and unused, and who was on it.
SIZES = {
    "large": ("18.56 GiB", "79.11 GiB", "8.85 GiB", "66.00 GiB", "1.20 GiB", ALONE),
    "small": ("130.00 MiB", "79.11 GiB", "21.00 MiB", "71.10 GiB", "611.00 MiB", ""),
    "broken": ("3.00 GiB", "79.11 GiB", "1.00 GiB", "50.00 GiB", "9.00 GiB", ALONE),
    "shared": ("1.02 GiB", "79.11 GiB", "0.86 GiB", "24.00 GiB", "1.20 GiB", f"{BESIDE} memory in use."),
}
PLACED = {
    "anywhere": ("large", "small", "broken", "shared"),
    "entropy": ("large", "small", "shared"),
    "update": ("large", "broken"),
    "tuning": ("large",),
}
#: Errors that name no tensor.
OTHERS = (
    "ValueError: No available memory for the cache blocks. Try increasing",
    "To serve at least one request with the models's max seq len (262144), (24.0 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (3.18 GiB). Based on the available memory, the "
    "estimated maximum model length is 34736. Try",
    "The model's max seq len (4096) is larger than the maximum number of tokens that can be stored in KV "
    "cache (3664).",
    "ValueError: Free memory on device cuda:0 (55.01/79.10 GiB) on startup is less than desired GPU memory "
    "utilization (0.9, 71.19 GiB). Decrease GPU memory utilization",
    "ValueError: Free memory on device cuda:0 (19.01/79.10 GiB) on startup is less than desired GPU memory "
    "utilization (0.5, 39.55 GiB). Decrease GPU memory utilization",
    "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try",
    "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
    "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'",
    "RuntimeError: Prefill out of memory. Try to lower your batch size.",
    "Memory on the node (IP: 10.0.0.7, ID: f) where the task (actor ID: 3, name=A.__init__, pid=4, memory "
    "used=2.22GB) was running was 59.49GB / 62.58GB (0.950744), which exceeds the memory usage threshold of",
    "Memory on the node (IP: 10.0.0.7) where the task (actor ID: 3) was running was 1902GB / 2015GB (0.95)",
    "[1234.5] Out of memory: Killed process 812 (python3) total-vm:1kB",
    "RuntimeError: CUDA error: out of memory",
)


def message(place: str, size: str) -> str:
    """An error of the allocator behind its stack."""
    calls = "".join(
        f'  File "/x/{file}", line 9, in {name}\n    {code}\n' for file, name, code in PLACES[place]
    )
    return f"Traceback (most recent call last):\n{calls}{LINE.format(*SIZES[size])}"


#: Parts that other listings have, or that change with every release.
ELSEWHERE = {"workload", "memory", "premises", "schema_version", "tuner_version", "error", "model"}


def answered(*words: str, stdin: str = "") -> list[str]:
    result = run(words[0], "-f", "json", *words[1:], stdin=stdin)
    return list(lines(json.loads(result.out), left_out=ELSEWHERE)) if result.out else [result.err]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", JOBS)
def test_errors(name: str) -> None:
    overrides, gpu, release = JOBS[name]
    errors = {
        f"{place} {size}": message(place, size) for place in PLACES for size in PLACED.get(place, ("small",))
    } | {text[:60]: text for text in OTHERS}
    listed = []
    for heading, text in errors.items():
        words = ("explain-oom", "--gpu", gpu, "--verl-version", release, "--message", "-", "--", *overrides)
        listed += [f"# {heading}", *answered(*words, stdin=text)]
    expect(f"errors-{name}.txt", "\n".join(listed), folder=FOLDER)


@pytest.mark.parametrize(
    "model", [(), ("--model", "qwen2.5-7b"), ("--model", "qwen3-30b-a3b", "--gpu", "h20")]
)
def test_errors_alone(model: tuple[str, ...]) -> None:
    listed = []
    for place in PLACES:
        for size in SIZES:
            words = ("explain-oom", *model, "--message", "-")
            listed += [f"# {place} {size}", *answered(*words, stdin=message(place, size))]
    expect(f"errors-alone{'-'.join(('', *model[1::2]))}.txt", "\n".join(listed), folder=FOLDER)


DIFFERENCES = {
    "releases-static": ("static", ("--verl-version", "0.5.0,0.9.1")),
    "releases-ppo": ("ppo", ("--verl-version", "0.7.1,0.9.1")),
    "releases-megatron": ("megatron", ("--verl-version", "0.6.1,0.9.1")),
    "offloaded": ("sglang", (f"{ACTOR}.fsdp_config.optimizer_offload=True", f"{ROLLOUT}.n=4")),
    "longer": ("lora", ("data.max_response_length=8192", f"{ACTOR}.ppo_max_token_len_per_gpu=4096")),
    "smaller": ("tight", (f"{ROLLOUT}.gpu_memory_utilization=0.4", f"{MODEL}.use_remove_padding=False")),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_differences(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    job, changed = DIFFERENCES[name]
    overrides, gpu, release = JOBS[job]
    folder = tmp_path_factory.mktemp("diff")
    words = ["/dev/null"]
    if changed[0] != "--verl-version":
        for file, added in (("before.sh", ()), ("after.sh", changed)):
            launch = " ".join(["python3 -m verl.trainer.main_ppo", *overrides, *added])
            (folder / file).write_text(f"{launch}\n")
        words, overrides = [str(folder / "before.sh"), str(folder / "after.sh")], ()
        changed = ("--verl-version", release)
    listed = answered("diff", *words, "--gpu", gpu, *changed, "--", *overrides)
    listed = [line.replace(str(folder), "FOLDER") for line in listed]
    expect(f"diff-{name}.txt", "\n".join(listed), folder=FOLDER)


RUNS = {
    "usual": {},
    "slow": {"timing_s/gen": 600.0, "timing_s/step": 700.0, "timing_s/update_actor": 90.0},
    "fast": {"timing_s/gen": 6.0, "timing_s/step": 30.0, "timing_s/old_log_prob": 1.0},
    "full": {"perf/max_memory_allocated_gb": 78.5, "perf/max_memory_reserved_gb": 79.0},
    "empty": {"perf/max_memory_allocated_gb": 9.5, "perf/max_memory_reserved_gb": 11.0},
    "clipped": {"response_length/clip_ratio": 0.4, "response_length/mean": 2400.0},
    "waiting": {
        "timing_s/agent_loop/slowest/tool_calls": 80.0,
        "timing_s/agent_loop/num_preempted/mean": 3.0,
    },
    "rewarding": {"timing_s/reward": 300.0, "timing_s/step": 420.0, "perf/cpu_memory_used_gb": 1900.0},
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("job", ["static", "lora", "megatron", "tight"])
def test_runs(job: str) -> None:
    overrides, gpu, release = JOBS[job]
    listed = []
    for name, changed in RUNS.items():
        steps = [TIMED | {"timing_s/gen": 700.0}, *([TIMED | changed] * 4)]
        config = [word for word in overrides if not word.startswith("--")]
        named = next((word.partition("=")[2] for word in overrides if word.startswith("--")), "ppo_trainer")
        text = log(release, config, steps, config=named)
        report = answered("advise", "-", "--gpu", gpu, stdin=text)
        kept = [line for line in report if line.startswith(("log", "findings", "verdict"))]
        listed += [f"# {name}", *(kept or report)]
    expect(f"run-{job}.txt", "\n".join(listed), folder=FOLDER)
