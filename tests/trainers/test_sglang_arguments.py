"""What SGLang does by its release and card, and what of a launch reaches it."""

import pytest
from msgspec.structs import replace

from tests.trainers.launches import ROLLOUT, SGLANG, settings_of, workload_of
from tuner.gpus import find_gpu
from tuner.serving import sglang
from tuner.serving.graphs import largest_graph
from tuner.trainers.verl.write import proposal_writer
from tuner.workload import Rollout

ENGINE = f"+{ROLLOUT}.engine_kwargs.sglang"


def rollout(*overrides: str, version: str = "0.9.1") -> Rollout:
    return workload_of((*SGLANG, *overrides), version).generator


@pytest.mark.parametrize(
    ("version", "gpu", "tokens"),
    [
        ("0.4.6.post5", "t4", 2048),  # srt/server_args.py, below 25,000 MiB
        ("0.4.6.post5", "a100-sxm-40g", 8192),
        ("0.5.2", "rtx-5090", 2048),  # lines 509-518, below 35 GiB
        ("0.5.2", "a100-sxm-40g", 8192),
        ("0.5.5", "a100-sxm-40g", 4096),  # _handle_gpu_memory_settings, below 60 GiB
        ("0.5.12", "h100-sxm", 8192),
        ("0.5.12", "b200-sxm", 16384),
    ],
)
def test_a_prefill_step_is_as_large_as_the_card_says(version: str, gpu: str, tokens: int) -> None:
    assert sglang.prefill_tokens(version, find_gpu(gpu)) == tokens


@pytest.mark.parametrize(
    ("version", "gpu", "tensor", "largest"),
    [
        ("0.4.4.post3", "h200-sxm", 1, 160),  # srt/server_args.py:254
        ("0.4.6.post5", "h100-sxm", 1, 160),  # srt/model_executor/cuda_graph_runner.py:136
        ("0.4.6.post5", "h200-sxm", 1, 256),  # lines 144-146, above 96 GiB
        ("0.5.2", "rtx-4090", 1, 8),  # srt/server_args.py:523-527
        ("0.5.2", "rtx-4090", 4, 80),
        ("0.5.2", "h20-sxm", 1, 256),  # srt/model_executor/cuda_graph_runner.py:187
        ("0.5.2", "b200-sxm", 1, 512),  # lines 189-190
        ("0.5.5", "rtx-4090", 2, 24),
        ("0.5.5", "h100-sxm", 2, 256),
        ("0.5.5", "h100-sxm", 4, 512),
        ("0.5.12", "h200-sxm", 1, 256),
    ],
)
def test_graphs_end_where_the_card_says(version: str, gpu: str, tensor: int, largest: int) -> None:
    assert sglang.capture_sizes(version, find_gpu(gpu), tensor, None)[-1] == largest


def test_sizes_of_graphs_are_those_of_the_version() -> None:
    gpu = find_gpu("h100-sxm")
    assert sglang.capture_sizes("0.5.2", gpu, 1, None)[:6] == (1, 2, 4, 8, 16, 24)
    assert sglang.capture_sizes("0.5.5", gpu, 1, None)[:6] == (1, 2, 4, 8, 12, 16)
    assert sglang.capture_sizes("0.5.5", gpu, 1, 544)[-3:] == (496, 512, 544)


def test_no_graph_is_captured_for_more_sequences_than_run() -> None:
    sizes = (1, 2, 4, 8, 16, 24, 32)
    assert sglang.running_capture_sizes(sizes, 20) == (1, 2, 4, 8, 16, 20)
    assert sglang.running_capture_sizes(sizes, 64) == sizes


@pytest.mark.parametrize(("version", "largest"), [("0.5.0", 160), ("0.6.1", 256), ("0.9.1", 256)])
def test_the_release_of_verl_brings_its_engine_s_graphs(version: str, largest: int) -> None:
    assert largest_graph(rollout(version=version)) == largest


def test_arguments_reach_the_server_alone() -> None:
    """verl 0.6.1 ``async_sglang_server.py:156`` is the first that has ``**engine_kwargs``."""
    chunk, graphs = f"{ENGINE}.chunked_prefill_size=4096", f"{ENGINE}.cuda_graph_max_bs=64"
    told = rollout(chunk, graphs)
    assert (told.max_batched_tokens, largest_graph(told)) == (4096, 64)
    assert rollout(chunk, version="0.6.1").max_batched_tokens == 8192
    assert rollout(chunk, f"{ROLLOUT}.mode=async", version="0.6.1").max_batched_tokens == 4096
    assert rollout(chunk, f"{ROLLOUT}.mode=async", version="0.6.0").max_batched_tokens == 8192
    assert rollout(f"{ENGINE}.kv_cache_dtype=fp8_e4m3").kv_dtype.bytes == 1
    assert rollout(f"{ENGINE}.kv_cache_dtype=fp8_e4m3", version="0.5.0").kv_dtype.bytes == 2


def test_switches_that_verl_keeps_from_it_do_nothing() -> None:
    off = rollout(f"{ROLLOUT}.enable_chunked_prefill=False", f"{ROLLOUT}.enable_prefix_caching=False")
    assert (off.chunked_prefill, off.prefix_caching) == (True, True)


def test_its_own_switches_do_what_they_say() -> None:
    undivided = rollout(f"{ENGINE}.chunked_prefill_size=-1", f"{ENGINE}.disable_radix_cache=True")
    assert (undivided.chunked_prefill, undivided.prefix_caching) == (False, False)
    assert undivided.max_batched_tokens == 16384  # max_prefill_tokens


def test_an_8_bit_cache_is_proposed_where_it_reaches_the_engine() -> None:
    assert rollout(version="0.7.1").quantizes_cache
    assert not rollout(version="0.6.1").quantizes_cache
    assert sglang.EIGHT_BIT_CACHE in sglang.cache_formats("0.4.6.post5")


@pytest.mark.parametrize(
    ("version", "mode", "fraction", "sequences"),
    [
        ("0.9.1", "async", 0.8, 64),
        ("0.6.1", "async", 0.8, 64),
        ("0.6.1", "sync", 0.4, 96),  # its engine is made of arguments one by one
    ],
)
def test_what_verl_computes_gives_way_to_arguments_that_it_hands_on(
    version: str, mode: str, fraction: float, sequences: int
) -> None:
    read = rollout(
        f"{ROLLOUT}.mode={mode}",
        f"{ROLLOUT}.gpu_memory_utilization=0.4",
        f"{ROLLOUT}.max_num_seqs=96",
        f"{ENGINE}.mem_fraction_static=0.8",
        f"{ENGINE}.max_running_requests=64",
        version=version,
    )
    assert (read.memory_fraction, read.max_sequences) == (fraction, sequences)


def test_a_proposal_is_written_where_sglang_reads_it() -> None:
    given = (f"{ENGINE}.mem_fraction_static=0.8", f"{ENGINE}.max_running_requests=64")
    settings = settings_of((*SGLANG, *given), "0.9.1")
    before = workload_of((*SGLANG, *given), "0.9.1")
    proposal = replace(before, rollout=replace(before.generator, memory_fraction=0.7, max_sequences=128))
    written = proposal_writer(before, settings, version="0.9.1").written(proposal)
    assert set(written.overrides) == {
        f"{ROLLOUT}.engine_kwargs.sglang.mem_fraction_static=0.7",
        f"{ROLLOUT}.engine_kwargs.sglang.max_running_requests=128",
    }
