"""A package adds a trainer, and every command works with it, without a word of verl."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runner import run
from tests.trainers.second import MINIRL
from tuner.trainers import registry, verl
from tuner.trainers.protocol import Configuration, Loaded, Trainer

CONFIG = """\
minirl: "1.1"
policy: Qwen2.5-7B-Instruct
machines: {gpus: 8, nodes: 1}
batch: {prompts: 512, answers: 8, prompt_tokens: 1024, answer_tokens: 3072}
sampler: {share: 0.4}
learner:
  tokens: 65536
  recompute: false
"""
GIVEN = ("--gpu", "h100-sxm")
VERL = re.compile(
    r"\b(?:verl|actor_rollout_ref|ppo_\w+|hydra|gpu_memory_utilization|use_dynamic_bsz|n_gpus_per_node)\b",
    re.IGNORECASE,
)
STOPPED = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.20 GiB is free. Process 1 has 77.90 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated."  # noqa: E501


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that is installed and names the trainer as an entry point."""
    about = tmp_path / "site" / "minirl_for_tuner-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: minirl-for-tuner\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[tuner.trainers]\nminirl = tests.trainers.second:MINIRL\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    registry.added.cache_clear()
    yield
    registry.added.cache_clear()


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "run.yaml").write_text(CONFIG)
    return "run.yaml"


def without_verl(text: str) -> str:
    """The text, in which nothing speaks of verl."""
    leaks = [line for line in text.splitlines() if VERL.search(line)]
    assert not leaks, leaks
    return text


def test_it_fulfils_what_a_trainer_is(config: str) -> None:
    trainer: Trainer = MINIRL
    configuration: Configuration = MINIRL.parse(None, ())
    loaded: Loaded = configuration.on("1.1")
    assert loaded.trainer is trainer is configuration.trainer
    assert (registry.trainers()[0], registry.trainers()[-1]) == (verl, MINIRL)


def test_advice_is_given_and_can_be_pasted(config: str) -> None:
    text = without_verl(run("advise", config, *GIVEN, "--full").out)
    assert "minirl 1.1" in text
    report = json.loads(without_verl(run("advise", config, *GIVEN, "-f", "json").out))
    assert report["premises"]["trainer"] == "minirl"
    overrides = report["combination"]["overrides"]
    assert {override.partition("=")[0] for override in overrides} <= {
        "sampler.share",
        "learner.tokens",
        "learner.recompute",
        "learner.moments_on_host",
    }
    pasted = json.loads(run("advise", config, *GIVEN, "-f", "json", "--", *overrides).out)
    assert (report["verdict"], pasted["verdict"]) == ("does_not_fit", "fits")
    assert pasted["memory"]["worst_phase"] == report["combination"]["worst_phase"]


def test_what_it_leaves_out_is_named_in_the_verdict(config: str) -> None:
    def advised(*words: str) -> str:
        return " ".join(without_verl(run("advise", config, *GIVEN, "--full", *words).out).split())

    draft = ("--", "sampler.draft=small")
    text = advised(*draft)
    assert text.startswith("DOES NOT FIT ")
    assert ", even without the draft model " in text
    assert "left out the draft model (sampler.draft=small, override 1 of the command line)" in text
    assert "draft model" not in advised("--release", "1.0", *draft)  # which does not read the key
    assert "draft model" not in advised()
    Path("other.yaml").write_text(CONFIG.replace("{share: 0.4}", "{share: 0.4, draft: small}"))
    (changed,) = json.loads(run("diff", config, "other.yaml", *GIVEN, "-f", "json").out)["keys"]
    assert (changed["after"]["key"], changed["after"]["kind"]) == ("sampler.draft", "not modelled")


def test_the_block_is_written_into_the_file(config: str) -> None:
    before = Path(config).read_text()
    result = run("advise", config, *GIVEN, "--least-gain", "0.01", "--write", config)
    assert result.code == 0, result.err
    written = Path(config).read_text()
    assert written != before
    assert "  tokens: 8192\n  recompute: false\n" in written  # smaller batches cost less than recomputation
    assert written.startswith('minirl: "1.1"\npolicy: Qwen2.5-7B-Instruct\n')


def test_a_check_finds_what_is_misspelt(config: str) -> None:
    Path(config).write_text(CONFIG.replace("tokens: 65536", "tokns: 65536"))
    result = run("check", config, *GIVEN)
    assert result.code == 1
    assert "MIN001" in without_verl(result.out)
    assert "learner.tokens" in result.out
    found = json.loads(without_verl(run("check", config, *GIVEN, "-f", "json").out))
    assert "MIN001" in [finding["code"] for finding in found["findings"]]
    assert "A name that is misspelt sets nothing." in run("rule", "MIN001").out
    assert run("check", ".", *GIVEN).code == 1  # the file is told among those of a folder


def test_a_diff_names_what_differs(config: str) -> None:
    Path("other.yaml").write_text(CONFIG.replace("recompute: false", "recompute: true"))
    text = without_verl(run("diff", config, "other.yaml", *GIVEN).out)
    assert "learner.recompute" in text
    found = json.loads(run("diff", config, "other.yaml", *GIVEN, "-f", "json").out)
    assert [key["after"]["key"] for key in found["keys"]] == ["learner.recompute"]
    assert found["before"]["trainer"] == "minirl"


def test_a_diff_with_a_job_of_another_trainer_has_no_keys_in_common(config: str) -> None:
    Path("verl.yaml").write_text(
        "actor_rollout_ref:\n  model: {path: Qwen2.5-7B-Instruct}\n  rollout: {name: vllm}\n"
        "algorithm: {adv_estimator: grpo}\n"
    )
    found = json.loads(run("diff", config, "verl.yaml", *GIVEN, "-f", "json").out)
    assert (found["before"]["trainer"], found["after"]["trainer"]) == ("minirl", "verl")
    assert {key["change"] for key in found["keys"]} <= {"meaning"}


def test_a_failure_is_explained_by_its_keys(config: str) -> None:
    Path("error.txt").write_text(STOPPED)
    asked = ("explain-oom", "--message", "error.txt", config, *GIVEN)
    result = run(*asked)
    assert result.code == 0, result.err
    assert "learner.tokens" in without_verl(result.out)
    explained = json.loads(without_verl(run(*asked, "-f", "json").out))
    assert {"sampler.share", "learner.tokens"} <= set(explained["deciding_keys"])


def test_settings_are_shown_with_their_origins(config: str) -> None:
    text = without_verl(run("config", config, "learner.moments_on_host=true").out)
    assert "learner.moments_on_host" in text
    every = json.loads(without_verl(run("config", config, "-f", "json").out))
    assert every["trainer"] == "minirl"


def test_a_release_is_chosen_by_its_option(config: str) -> None:
    assert "minirl 1.0" in without_verl(run("advise", config, *GIVEN, "--release", "1.0").out)
    refused = run("advise", config, *GIVEN, "--release", "new")
    assert (refused.code, refused.out) == (2, "")
    assert "'new' is not a minirl release; bundled releases: 1.0, 1.1" in refused.err


def test_bad_input_names_the_place(config: str) -> None:
    Path(config).write_text(CONFIG.replace("tokens: 65536", "tokens: many"))
    refused = run("advise", config, *GIVEN)
    assert refused.code == 2
    assert "run.yaml:7:3: learner.tokens" in without_verl(refused.err)
    refused = run("advise", config.replace("run", "none"), *GIVEN)
    assert refused.code == 2


def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    entry = tmp_path / "site" / "minirl_for_tuner-1.0.dist-info" / "entry_points.txt"
    entry.write_text("[tuner.trainers]\nminirl = tests.trainers.nowhere:MINIRL\n")
    registry.added.cache_clear()
    Path("run.yaml").write_text(CONFIG)
    refused = run("advise", "run.yaml", *GIVEN)
    assert (refused.code, refused.out) == (2, "")
    assert "the trainer minirl cannot be loaded: No module named 'tests.trainers.nowhere'" in refused.err
    Path("verl.yaml").write_text("actor_rollout_ref: {model: {path: Qwen2.5-7B}, rollout: {name: vllm}}\n")
    assert run("advise", "verl.yaml", *GIVEN).code == 0  # which is not held up by it
