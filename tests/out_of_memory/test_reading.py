"""What is read of a text that was printed when memory ran out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.out_of_memory.allocator import Process, read_message
from tuner.out_of_memory.kinds import WORDINGS, ErrorKind
from tuner.out_of_memory.reading import OutOfMemory, read_out_of_memory
from tuner.units import GIB, MIB

# torch 2.0, 2.1 (with its misspelling), 2.2 and later, later with private pools; AMD's and Huawei's builds.
OF_RELEASES = {
    "2.0": "Tried to allocate 2.00 GiB (GPU 0; 79.10 GiB total capacity; 60.00 GiB already "
    "allocated; 1.50 GiB "
    "free; 70.00 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting",
    "2.1": "Tried to allocate 2.00 GiB. GPU 0 has a total capacty of 79.10 GiB of which 1.50 GiB is free. "
    "Including non-PyTorch memory, this process has 73.00 GiB memory in use. Of the "
    "allocated memory 60.00 GiB "
    "is allocated by PyTorch, and 10.00 GiB is reserved by PyTorch but unallocated.",
    "2.6": "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.50 GiB is free. "
    "Process 7 has 73.00 GiB memory in use. Process 8 has 512.00 MiB memory in use. Of the allocated memory "
    "60.00 GiB is allocated by PyTorch, with 1.25 GiB allocated in private pools (e.g., CUDA Graphs), and "
    "10.00 GiB is reserved by PyTorch but unallocated.",
}


@pytest.mark.parametrize("release", OF_RELEASES)
@pytest.mark.parametrize("prefix", ["CUDA out of memory. ", "HIP out of memory. ", "NPU out of memory. "])
def test_every_release_of_the_allocator_says_the_same(release: str, prefix: str) -> None:
    error = read_out_of_memory(f"torch.OutOfMemoryError: {prefix}{OF_RELEASES[release]}")
    assert error is not None
    assert error.kind is ErrorKind.ALLOCATION
    message = error.allocator
    assert message is not None
    assert message.requested is not None
    assert message.requested.text == "2.00 GiB"
    assert (message.total_bytes, message.free_bytes) == (round(79.1 * GIB), round(1.5 * GIB))
    assert (message.allocated_bytes, message.unused_bytes) == (60 * GIB, 10 * GIB)


def test_processes_and_private_pools_are_told_apart() -> None:
    new, old = (read_message(OF_RELEASES[release]) for release in ("2.6", "2.1"))
    assert new.processes == (Process(number=7, bytes=73 * GIB), Process(number=8, bytes=512 * MIB))
    assert (new.private_bytes, new.own_bytes, new.card) == (round(1.25 * GIB), None, 0)
    assert (old.own_bytes, old.processes) == (73 * GIB, ())


# One text of each kind as its library words it, and figures of it.
WORDED = [
    (ErrorKind.NO_CACHE, "ValueError: No available memory for the cache blocks. Try increasing", {}),
    (
        ErrorKind.NO_CACHE,
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        {},
    ),
    (
        ErrorKind.SHORT_CACHE,
        "ValueError: To serve at least one request with the models's max seq len (1048576), "
        "(24.00 GiB KV cache "
        "is needed, which is larger than the available KV cache memory (9.97 GiB). Try increasing",
        {"sequence_tokens": 1048576, "needed_gib": 24.0, "available_gib": 9.97},
    ),
    (
        ErrorKind.SHORT_CACHE,
        "To serve at least one request with the model's max seq len (262144), (24.0 GiB KV "
        "cache is needed, which "
        "is larger than the available KV cache memory (3.18 GiB). Based on the available "
        "memory, the estimated "
        "maximum model length is 34736. Try",
        {"needed_gib": 24.0, "available_gib": 3.18, "possible_tokens": 34736},
    ),
    (
        ErrorKind.SHORT_CACHE,
        "The model's max seq len (4096) is larger than the maximum number of tokens that can "
        "be stored in KV cache "
        "(3664).",
        {"sequence_tokens": 4096, "possible_tokens": 3664},
    ),
    (
        ErrorKind.NOT_FREE,
        "ValueError: Free memory on device cuda:0 (55.01/79.10 GiB) on startup is less than "
        "desired GPU memory "
        "utilization (0.9, 71.19 GiB). Decrease GPU memory utilization",
        {"free_gib": 55.01, "total_gib": 79.1, "fraction": 0.9, "share_gib": 71.19},
    ),
    (
        ErrorKind.SAMPLER,
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
        "requests. Please try",
        {"sequences": 1024},
    ),
    (ErrorKind.MAPPING, "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62", {}),
    (
        ErrorKind.MAPPING,
        "(SGLangHttpServer pid=250977) [torch_memory_saver.cpp] CUresult error: 2 (out of "
        "memory)  file=csrc/utils.h",
        {},
    ),
    (
        ErrorKind.NCCL,
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'",
        {},
    ),
    (ErrorKind.SERVING, "RuntimeError: Prefill out of memory. Try to lower your batch size.", {}),
    (
        ErrorKind.HOST,
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on "
        "memory.\nMemory on the node "
        "(IP: 10.0.0.7, ID: f) where the task (actor ID: 3, name=A.__init__, pid=4, memory "
        "used=2.22GB) was running "
        "was 59.49GB / 62.58GB (0.950744), which exceeds the memory usage threshold of 0.95.",
        {"used_gib": 59.49, "total_gib": 62.58},
    ),
    (ErrorKind.HOST, "[1234.5] Out of memory: Killed process 812 (python3) total-vm:1kB", {}),
    (ErrorKind.UNSIZED, "RuntimeError: CUDA error: out of memory", {}),
    (
        ErrorKind.UNSIZED,
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        {},
    ),
    (
        ErrorKind.KILLED,
        "Worker exit type: SYSTEM_ERROR ... (1) The process is killed by SIGKILL by OOM killer due to",
        {},
    ),
]


@pytest.mark.parametrize(("kind", "text", "figures"), WORDED)
def test_each_library_is_understood(kind: ErrorKind, text: str, figures: dict[str, float]) -> None:
    error = read_out_of_memory(f"INFO starting\n{text}\nINFO ending")
    assert error is not None
    assert error.kind is kind
    assert dict(error.figures).items() >= figures.items()


def test_every_wording_has_a_text() -> None:
    assert {kind for kind, *_ in WORDED} | {ErrorKind.ALLOCATION} == {wording.kind for wording in WORDINGS}


STACK = """Traceback (most recent call last):
  File "/job/main.py", line 3, in fit
    worker.update_actor(batch)
ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.actor_rollout_update_actor() (pid=7)
  File "/job/verl/workers/actor/dp_actor.py", line 291, in _optimizer_step
    self.actor_optimizer.step()
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total of"""
PREFIXES = [
    "(WorkerDict pid=7) ",
    "\x1b[36m(WorkerDict pid=7, ip=10.0.0.1)\x1b[0m ",
    "[36m(main_task pid=7)[0m ",
    "[rank0]: ",
    "[default3]:",
    "(EngineCore_DP0 pid=7) ERROR 04-05 01:12:55 [core.py:390] ",
    "2025-06-01T10:00:00.123Z ",
    "> ",
]


def told(error: OutOfMemory | None) -> list[tuple[str, int | None, str]]:
    assert error is not None
    assert error.allocator is not None
    return [(call.function, call.line, call.code) for call in error.calls]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_stands_in_front_of_lines_changes_nothing(prefix: str) -> None:
    prefixed = "\n".join(prefix + line for line in STACK.splitlines())
    assert told(read_out_of_memory(prefixed)) == told(read_out_of_memory(STACK))
    assert told(read_out_of_memory(STACK)) == [
        ("fit", 3, "worker.update_actor(batch)"),
        ("WorkerDict.actor_rollout_update_actor", None, ""),
        ("_optimizer_step", 291, "self.actor_optimizer.step()"),
    ]


def test_the_stack_of_another_process_between_the_lines_is_left_out() -> None:
    other = '(B pid=8)   File "/job/other.py", line 1, in other'
    lines = [f"(A pid=7) {line}" for line in STACK.splitlines()]
    mixed = "\n".join(line for pair in zip(lines, [other] * len(lines), strict=True) for line in pair)
    assert told(read_out_of_memory(mixed)) == told(read_out_of_memory(STACK))


def test_the_stack_behind_what_a_library_printed_is_found() -> None:
    error = read_out_of_memory(
        "CUDA Error: out of memory at /w/csrc/cumem_allocator.cpp:62\n" + STACK.split("torch.")[0]
    )
    assert error is not None
    assert error.kind is ErrorKind.MAPPING
    assert error.calls[-1].function == "_optimizer_step"


def test_the_error_that_says_what_ran_out_comes_before_those_that_follow_from_it() -> None:
    noise = (
        "Worker exit type: SYSTEM_ERROR. The process is killed by SIGKILL by OOM killer due to high memory."
    )
    error = read_out_of_memory(f"{noise}\n{STACK}\n{noise}")
    assert error is not None
    assert (error.kind, error.line) == (ErrorKind.ALLOCATION, 9)


@given(width=st.integers(20, 90), indent=st.integers(0, 6))
def test_a_message_broken_over_lines_says_the_same(width: int, indent: int) -> None:
    words, rows = OF_RELEASES["2.6"].split(), [""]
    for word in ["CUDA", "out", "of", "memory.", *words]:
        if len(rows[-1]) + len(word) > width:
            rows.append(" " * indent)
        rows[-1] += f"{word} "
    error = read_out_of_memory("\n".join(rows))
    assert error is not None
    assert error.allocator == read_message(OF_RELEASES["2.6"])


@pytest.mark.parametrize(
    "text", ["", "memory", "OOM handling is on", "step 3: perf/max_memory_allocated_gb:40", "\x00\x1b["]
)
def test_a_text_without_an_error_is_none(text: str) -> None:
    assert read_out_of_memory(text) is None


@given(
    st.lists(
        st.sampled_from(
            [
                *PREFIXES,
                "out of memory",
                "Tried to allocate 9",
                'File "',
                ", line 1, in f",
                "GiB",
                "memory",
                "\n",
                "│",
                "9" * 30,
                "ray::",
                "()",
                "was 1GB / 2GB",
                "Traceback (most recent call last)",
            ]
        ),
        max_size=40,
    )
)
def test_no_text_breaks_the_reader(parts: list[str]) -> None:
    error = read_out_of_memory("".join(parts))
    assert error is None or error.kind in ErrorKind
