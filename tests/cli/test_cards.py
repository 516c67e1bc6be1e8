"""Cards by the names that people write, cards of another size, and cards without bfloat16."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import run
from tuner.gpus import find_gpu
from tuner.units import GIB, TERA

pytestmark = pytest.mark.sampled(12)

CONFIG = """\
algorithm: {adv_estimator: grpo}
data: {train_batch_size: 64, max_prompt_length: 512, max_response_length: 512}
actor_rollout_ref:
  model: {path: Qwen/Qwen2.5-0.5B-Instruct, use_remove_padding: true}
  actor: {ppo_mini_batch_size: 32, ppo_micro_batch_size_per_gpu: 2}
  rollout: {name: vllm, n: 4, tensor_model_parallel_size: 1, log_prob_micro_batch_size_per_gpu: 2}
trainer: {n_gpus_per_node: 2, nnodes: 1}
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(CONFIG)
    return str(file)


def advised(config: str, *options: str) -> dict[str, Any]:
    result = run("advise", config, *options, "--verl-version", "0.7.1", "-f", "json")
    assert result.code == 0, result.err
    report: dict[str, Any] = json.loads(result.out)
    return report


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("A30", "a30"),
        ("A40", "a40"),
        ("l40", "l40"),
        ("L40S", "l40s"),
        ("V100", "v100-sxm2-32g"),
        ("V100-32GB", "v100-sxm2-32g"),
        ("v100-16g", "v100-sxm2-16g"),
        ("v100-pcie", "v100-pcie-32g"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16g"),
        ("T4", "t4"),
        ("Tesla T4", "t4"),
        ("H20-3e", "h20-3e-sxm"),
        ("NVIDIA H20-3e", "h20-3e-sxm"),
        ("RTX4090D", "rtx-4090d"),
        ("4090D", "rtx-4090d"),
        ("RTX4090", "rtx-4090"),
        ("RTX3090", "rtx-3090"),
        ("A6000", "rtx-a6000"),
        ("rtx 6000 ada", "rtx-6000-ada"),
        ("RTX PRO 6000", "rtx-pro-6000"),
        ("MI308X", "mi308x"),
        ("MI325X", "mi325x"),
        ("910C", "ascend-910c"),
        ("A3", "ascend-910c"),
        ("ascend-a3", "ascend-910c"),
        ("GB10", "gb10"),
        ("DGX-Spark", "gb10"),
    ],
)
def test_cards_are_known_as_people_write_them(config: str, spelling: str, name: str) -> None:
    assert find_gpu(spelling).name == name
    result = run("advise", config, "--gpu", spelling)
    assert result.code == 0, result.err
    assert f"2 x {name}" in result.out


@pytest.mark.parametrize(
    ("name", "gib", "tflop", "bandwidth"),
    [
        ("a30", 24, 165, 933e9),
        ("a40", 44.99, 149.7, 696e9),
        ("l40", 44.99, 181.05, 864e9),
        ("v100-pcie", 32, 112, 900e9),
        ("t4", 15, 65, 320e9),
        ("h20-3e", 140.4, 148, 4.8e12),
        ("mi325x", 256, 1307.4, 6e12),
        ("mi308x", 192, 188.4, 5.3e12),
    ],
)
def test_figures_are_those_of_data_sheets(name: str, gib: float, tflop: float, bandwidth: float) -> None:
    gpu = find_gpu(name)
    assert gpu.memory_bytes / GIB == pytest.approx(gib, abs=0.1)
    assert gpu.dense_bf16_flop_per_s == pytest.approx(tflop * TERA)
    assert gpu.memory_bytes_per_s == pytest.approx(bandwidth)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ["v100-sxm2-32g", "v100-sxm2-16g", "v100-pcie-32g", "v100-pcie-16g", "t4"])
def test_a_card_without_bfloat16_refuses_it(config: str, name: str) -> None:
    assert not find_gpu(name).bfloat16
    said = " ".join(run("advise", config, "--gpu", name).out.split())
    assert said.startswith("WILL NOT START refused by CFG187"), said[:300]
    assert "actor_rollout_ref.rollout.dtype=float16" in said
    half = run("advise", config, "actor_rollout_ref.rollout.dtype=float16", "--gpu", name).out
    assert "CFG187" not in half
    assert "CFG187" in run("check", config, "--gpu", name).out
    assert "CFG187" not in run("check", config, "--gpu", "a30").out


@pytest.mark.sampled(6)
@pytest.mark.parametrize("amount", ["24GiB", "24 GiB", "24GB", "24576MiB", "24G"])
def test_an_amount_alone_names_the_card_that_stands_for_speed(config: str, amount: str) -> None:
    report = advised(config, "--gpu-memory", amount)
    gpu = report["workload"]["cluster"]["gpu"]
    assert gpu["memory_bytes"] == 24 * GIB
    assert report["memory"]["capacity_bytes"] == 24 * GIB
    nearest = find_gpu(gpu["name"].rpartition(" ")[2])
    assert gpu["memory_bytes_per_s"] == nearest.memory_bytes_per_s
    assert nearest.name in report["premises"]["gpu_reason"]
    assert report["premises"]["gpu_assumed"] is True
    said = " ".join(run("advise", config, "--gpu-memory", amount).out.split())
    assert "24.0 GiB" in said and nearest.name in said


def test_an_amount_beside_a_card_is_that_card_with_it(config: str) -> None:
    report = advised(config, "--gpu", "2xrtx-4090", "--gpu-memory", "48GiB")
    gpu = report["workload"]["cluster"]["gpu"]
    assert (gpu["name"], gpu["memory_bytes"]) == ("rtx-4090", 48 * GIB)
    assert report["memory"]["capacity_bytes"] == 48 * GIB
    assert report["premises"]["gpu_assumed"] is False
    assert "--gpu-memory 48GiB" in report["premises"]["gpu_reason"]


@pytest.mark.parametrize("amount", ["24", "much", "0GiB", "-1GiB", "nan GiB", "1e9GiB", "99999999GiB", ""])
def test_what_is_no_amount_ends_in_one_message(config: str, amount: str) -> None:
    result = run("advise", config, "--gpu-memory", amount)
    assert result.code == 2
    assert "24GiB" in result.err and "Traceback" not in result.err
    assert len(result.err.strip().splitlines()) <= 3


def test_every_command_takes_the_amount(config: str) -> None:
    assert run("check", config, "--gpu-memory", "4GiB", "--select", "MEM001").code == 1
    assert run("check", config, "--gpu-memory", "80GiB", "--select", "MEM001").code == 0
    shown = run("diff", config, config, "data.train_batch_size=128", "--gpu-memory", "24GiB").out
    assert " of 24.0 at the peak (" in " ".join(shown.split())
    weighed = run("estimate-memory", "--model", "qwen2.5-7b", "--gpu-memory", "24GiB")
    assert weighed.code == 0, weighed.err
    assert "24.0 GiB" in weighed.out
    known = run("estimate-memory", "--model", "qwen2.5-7b", "--gpu", "a30")
    assert "a30" in known.out
    message = "CUDA out of memory. Tried to allocate 18.56 GiB."
    assert run("explain-oom", config, "--message", message, "--gpu-memory", "24GiB").code == 0
    assert run("explain-oom", "--message", message, "--gpu-memory", "24GiB").code == 0


def test_the_settings_of_a_project_may_say_it(
    tmp_path: Path, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tuner.toml").write_text('gpu-memory = "40GiB"\n')
    report = advised(config)
    assert report["memory"]["capacity_bytes"] == 40 * GIB
    other = tmp_path / "other"
    other.mkdir()
    (other / "tuner.toml").write_text('gpu-memory = "forty"\n')
    (other / "job.yaml").write_text(CONFIG)
    result = run("advise", str(other / "job.yaml"))
    assert result.code == 2 and "tuner.toml" in result.err and "gpu-memory" in result.err


def test_a_job_that_fits_the_box_alone_does_not_fit_what_pytorch_is_offered(tmp_path: Path) -> None:
    """7B of supervised fine-tuning on two cards of 80 GB, of which PyTorch is offered 79.1."""
    script = tmp_path / "sft.sh"
    script.write_text(
        "torchrun --standalone --nnodes=1 --nproc_per_node=2 -m verl.trainer.fsdp_sft_trainer \\\n"
        "  data.train_files=a.parquet data.val_files=b.parquet data.max_length=2176 \\\n"
        "  model.partial_pretrain=Qwen/Qwen2.5-7B-Instruct trainer.total_epochs=1\n"
    )
    said = run("advise", str(script), "--gpu", "a100-80g", "--verl-version", "0.4.1").out
    assert re.match(r"MAY NOT FIT  [\d.]+ to (79|80)\.[\d] of 79.1 GiB in train", said)
    assert "of 79.1 GiB" in said


def test_a_launch_for_npus_is_judged_for_npus(config: str) -> None:
    npu = advised(config, "trainer.device=npu")
    gpu = npu["workload"]["cluster"]["gpu"]
    assert (gpu["name"], npu["premises"]["gpu_assumed"]) == ("ascend-910c", True)
    assert npu["verdict"] == "fits"
    said = " ".join(run("advise", config, "trainer.device=npu", "--verl-version", "0.7.1").out.split())
    assert "the launch is for cards of Huawei and none was named; ascend-910c is taken" in said
    assert "trainer.device=cuda" not in said
    assert "for ascend-910c" in " ".join(run("check", config, "trainer.device=npu").err.split())


def test_a_size_alone_is_that_of_a_card_of_the_launch(config: str) -> None:
    gpu = advised(config, "trainer.device=npu", "--gpu-memory", "32GiB")["workload"]["cluster"]["gpu"]
    assert (gpu["vendor"], gpu["memory_bytes"]) == ("huawei", 32 * GIB)


def test_a_named_card_of_another_vendor_is_told_and_the_device_left_alone(config: str) -> None:
    said = " ".join(
        run("advise", config, "trainer.device=npu", "--gpu", "h100", "--verl-version", "0.7.1").out.split()
    )
    assert "WILL NOT START" in said and "CFG193" in said
    assert "trainer.device=cuda" not in said
