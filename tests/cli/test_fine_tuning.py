"""Jobs of supervised fine-tuning on the command line: in every form that they are given in."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.golden import expect
from tests.cli.runner import Result, run
from tests.corpus import launches

pytestmark = pytest.mark.sampled(12)

MODEL = "Qwen/Qwen2.5-7B-Instruct"
OWN = "verl.trainer.fsdp_sft_trainer"
ENGINE = "verl.trainer.sft_trainer"
GPU = ("--gpu", "h100-sxm")
SCRIPT = f"""#!/bin/bash
nproc_per_node=$1
shift
torchrun --standalone --nnodes=2 --nproc_per_node=$nproc_per_node -m {OWN} \\
    data.micro_batch_size_per_gpu=4 \\
    model.partial_pretrain={MODEL} $@
"""


def own(*overrides: str, gpus: int = 8) -> tuple[str, ...]:
    return "torchrun", f"--nproc_per_node={gpus}", "-m", OWN, f"model.partial_pretrain={MODEL}", *overrides


def engine(*overrides: str, gpus: int = 8) -> tuple[str, ...]:
    return "torchrun", f"--nproc_per_node={gpus}", "-m", ENGINE, f"model.path={MODEL}", *overrides


def answered(result: Result) -> str:
    assert (result.code, result.err) == (0, ""), result.err
    return result.out


def test_both_trainers_are_advised() -> None:
    expect(
        "fine-tuning-own.txt",
        answered(
            run("advise", *GPU, "--full", *own("data.max_length=4096", "data.micro_batch_size_per_gpu=8"))
        ),
    )
    expect("fine-tuning-engine.txt", answered(run("advise", *GPU, "--full", *engine("data.max_length=8192"))))


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_nothing_is_said_of_a_rollout(form: str) -> None:
    text = answered(run("advise", *GPU, "--output-format", form, "--full", *engine("data.max_length=8192")))
    if form == "json":
        report = json.loads(text)
        assert report["rollout"] is report["workload"]["rollout"] is report["workload"]["sync"] is None
        assert [phase["phase"] for phase in report["memory"]["phases"]] == ["train", "save_checkpoint"]
        assert [phase["phase"] for phase in report["time"]] == ["train"]
        text = json.dumps([report["findings"], report["combination"]])
    else:
        assert not re.search(r"rollout|log.?prob|KV cache|weight sync|update_actor", text)
    assert "actor_rollout_ref" not in text


def test_torchrun_says_how_many_gpus_there_are(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(SCRIPT)
    assert "8 x h100-sxm, 79.1 GiB each, on 2 nodes" in answered(
        run("advise", str(script), "4", *GPU, "--full")
    )
    assert "2 x h100-sxm on 1 node" in answered(run("advise", *GPU, *engine(gpus=2)))
    yaml = tmp_path / "config.yaml"
    yaml.write_text(f"model:\n  path: {MODEL}\n")
    told = answered(run("advise", str(yaml), *GPU, "--full"))
    assert "8 x h100-sxm" in told
    assert "torchrun says how many GPUs a node has" in told
    ray = ("python3", "-m", f"{ENGINE}_ray", f"model.path={MODEL}", "trainer.n_gpus_per_node=4")
    assert "4 x h100-sxm" in answered(run("advise", *GPU, *ray))


@pytest.mark.parametrize(
    "launcher",
    ["torchrun", "torchrun --standalone --nnodes=1", "python3 -m torch.distributed.run", "uv run torchrun"],
)
def test_a_launcher_that_says_no_number_starts_one_process(launcher: str, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"{launcher} -m {OWN} model.partial_pretrain={MODEL} trainer.n_gpus_per_node=8\n")
    for gpu in ("h100-sxm", "8xh100-sxm"):
        told = " ".join(answered(run("advise", str(script), "--gpu", gpu, "--full")).split())
        assert "1 x h100-sxm, 79.1 GiB each, on 1 node" in told
        assert "without --nproc_per_node one process is started on a node" in told
    assert "4 x h100-sxm on 1 node" in answered(run("advise", str(script), *GPU, "--gpus-per-node", "4"))


@pytest.mark.parametrize("number", ["$GPUS", "gpu", "auto"])
def test_a_number_of_processes_that_nobody_knows_is_assumed(number: str, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"torchrun --nproc_per_node={number} -m {OWN} model.partial_pretrain={MODEL}\n")
    assert "8 x h100-sxm on 1 node" in answered(run("advise", str(script), *GPU))
    assert "4 x h100-sxm on 1 node" in answered(run("advise", str(script), "--gpu", "4xh100-sxm"))


def test_the_launch_says_how_many_of_a_nodes_gpus_it_takes() -> None:
    for words in (own(gpus=1), engine(gpus=1)):
        told = " ".join(answered(run("advise", "--gpu", "8xh100-sxm", "--full", *words)).split())
        assert "1 x h100-sxm, 79.1 GiB each, on 1 node" in told
        assert "number from torchrun --nproc_per_node=1" in told
    ray = ("python3", "-m", f"{ENGINE}_ray", f"model.path={MODEL}", "trainer.n_gpus_per_node=4")
    assert "8 x h100-sxm on 1 node" in answered(run("advise", "--gpu", "8xh100-sxm", *ray))


def test_other_launchers_start_a_process_for_each_gpu(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"accelerate launch -m {OWN} model.partial_pretrain={MODEL}\n")
    assert "8 x h100-sxm on 1 node" in answered(run("advise", str(script), *GPU))


def test_a_run_tells_its_configuration(tmp_path: Path) -> None:
    """As the trainer prints it, which is one line of Python, and as Hydra writes it."""
    from tuner.trainers.verl.defaults import read_defaults

    tree = dict(read_defaults("0.5.0", "sft_trainer").tree)
    tree["model"] = {**tree["model"], "partial_pretrain": MODEL}
    (tmp_path / "run.log").write_text(f"Using remove padding: False\n{tree}\nstep:1 - train/loss:1.5\n")
    (tmp_path / "config.yaml").write_text(json.dumps(tree))
    for name in ("run.log", "config.yaml"):
        told = answered(run("advise", str(tmp_path / name), *GPU, "--full"))
        assert "verl 0.5.0, fsdp2" in told, name


def logged(version: str, config: str, key: str, **metrics: float) -> str:
    from tuner.trainers.verl.defaults import read_defaults

    tree = dict(read_defaults(version, config).tree)
    tree["model"] = {**tree["model"], key: MODEL}
    parts = " - ".join(f"{name}:{value}" for name, value in {"train/loss": 1.5, **metrics}.items())
    bar = "Epoch 1/1:   5%|#  | 12/100 [00:50<07:30,  5.1s/it]\r"
    return "\n".join([str(tree), *(f"{bar}step:{step} - {parts}" for step in range(1, 7))])


def test_a_run_stands_beside_the_model() -> None:
    text = logged("0.7.0", "sft_trainer", "partial_pretrain", **{"train/time(s)": 5.5})
    told = answered(run("advise", "-", *GPU, stdin=text))
    assert re.search(r"^  train +5\.5 s +\d", told, re.MULTILINE), told
    assert re.search(r"^  step +5\.5 s +\d", told, re.MULTILINE), told


def test_tokens_utilisation_and_memory_of_a_run_stand_beside_the_model() -> None:
    """Half of the utilisation is twice the seconds; the mean length is the run's."""
    seconds = []
    for utilisation in (0.4, 0.2):
        metrics = {
            "train/global_tokens": 256 * 500,
            "train/mfu": utilisation,
            "perf/max_memory_allocated_gb": 22.5,
        }
        text = logged("0.9.1", "sft_trainer_engine", "path", **metrics)
        report = json.loads(answered(run("advise", "-", *GPU, "-f", "json", stdin=text)))
        observed = report["log"]["observed"]
        assert report["workload"]["batch"]["lengths"]["mean_response"] == 500
        assert observed["seconds_from"] == "train/mfu"
        assert observed["memory"]["allocated_bytes"] == round(22.5 * 2**30)
        seconds.append(observed["phases"][0]["observed_seconds"])
    assert seconds[1] == pytest.approx(2 * seconds[0])
    parameters_flop = 6 * 7.6e9 * 256 * 500  # verl counts attention, and both embeddings, besides
    assert 1 < seconds[0] * 0.4 * 8 * 989e12 / parameters_flop < 1.2


def test_given_sequences_have_no_prompts_apart() -> None:
    refused = run("advise", *GPU, *engine(), "--mean-prompt-length", "300")
    assert (refused.code, refused.out) == (2, "")
    assert "has no prompts apart; give --mean-response-length" in refused.err


def test_an_error_is_explained_in_the_trainers_own_keys() -> None:
    error = (
        f'  File "/w/verl/trainer/fsdp_sft_trainer.py", line 404, in _compute_loss_and_backward\n'
        "    loss = loss_fct(shift_logits, shift_labels)\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
        f"{16384 * 152064 * 4 / 2**30:.2f} GiB.\n"
    )
    told = answered(run("explain-oom", *own("data.max_length=4096"), *GPU, "--message", "-", stdin=error))
    assert "train (_compute_loss_and_backward, fsdp_sft_trainer.py:404)" in told
    assert "data.micro_batch_size_per_gpu=2" in told


@pytest.mark.parametrize(
    "call", ["_initialize_kv_caches", "determine_available_memory", "generate_sequences"]
)
def test_an_error_of_a_rollout_engine_is_another_jobs(call: str) -> None:
    error = f'  File "/w/vllm/v1/engine/core.py", line 90, in {call}\n    {call}(x)\n{{}}'
    allocated = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"
    for message in (allocated, "ValueError: No available memory for the cache blocks.\n"):
        words = ("explain-oom", *engine(), *GPU, "--message", "-")
        told = answered(run(*words, stdin=error.format(message)))
        assert "This configuration has no such phase" in told, told


def test_fine_tuning_is_laid_beside_what_follows_it(tmp_path: Path) -> None:
    tuned, trained = tmp_path / "tuned.yaml", tmp_path / "trained.yaml"
    tuned.write_text(f"model: {{path: {MODEL}}}\n")
    trained.write_text(f"actor_rollout_ref: {{model: {{path: {MODEL}}}, rollout: {{name: vllm}}}}\n")
    told = answered(run("diff", *GPU, str(tuned), str(trained)))
    assert re.search(r"train +\S+ → +- ", told), told
    assert re.search(r"rollout +- → +\S", told), told
    assert "rollout: none → yes" in told
    assert re.search(r"train +- → +\S", answered(run("diff", *GPU, str(trained), str(tuned))))


def test_what_the_trainer_refuses_is_no_fit(tmp_path: Path) -> None:
    told = answered(run("advise", *GPU, *own("data.train_batch_size=250")))
    assert told.startswith("WILL NOT START  refused by CFG181")
    assert "data.train_batch_size=256" in told
    checked = run("check", *own("data.train_batch_size=250"), *GPU)
    assert "error CFG181 given-batch-indivisible" in checked.out


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("max_position_embeddings=8192", False),
        ("num_hidden_layers=8", True),
        ("attn_implementation=sdpa", False),
        ("attn_implementation=flash_attention_2", False),
        ("attn_implementation=eager", False),
        ("attn_implementation=flex_attention", True),
    ],
)
def test_limits_of_positions_and_attention_that_is_counted_are_no_other_size(key: str, told: bool) -> None:
    said = answered(run("advise", *engine(f"+model.override_config.{key}"), *GPU))
    assert ("overrides of the model's configuration" in said) is told


def test_a_job_that_generates_nothing_is_not_validated(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"model: {{path: {MODEL}}}\n")
    refused = run("validate", str(config), "--device", "cpu")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("error: jobs of fine-tuning are not validated")


def test_the_launches_of_verls_own_scripts_are_answered() -> None:
    """All but one of an engine that its release is not modelled with, and one without a model."""
    tuned = [launch for launch in launches() if "sft_trainer" in launch["entry"]]
    results = [
        run(
            *("advise", *GPU, "--verl-version", launch["tags"][0].removeprefix("v")),
            *("torchrun", "--nproc_per_node=8", "-m", launch["entry"], *launch["overrides"]),
        )
        for launch in tuned
    ]
    refused = [result.err for result in results if result.code]
    assert len(results) == 46
    assert [re.search("veomni|placeholder", error) is not None for error in refused] == [True] * 2
