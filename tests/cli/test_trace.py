"""``--trace`` on the command line: unknown architectures, the cache, and what is left alone without it."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.cli.runner import ROOT, Result, process, run
from tests.trace.configs import kept_counts, write

CONFIG = "tests/cli/configs/grpo.yaml"
TOKENS = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
# Wide and deep enough that the layers decide the peak.
WIDE = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 16,
    "num_hidden_layers": 16,
    "num_key_value_heads": 4,
}
IMPORTED = re.compile(r"^import time:.*\|\s*(torch|transformers|tuner\.trace)$", re.MULTILINE)

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _cached(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept_counts(tmp_path_factory)))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Where a test finds no count of an earlier one."""
    return tmp_path / "cache"


def peaks(result: Result) -> dict[str, int]:
    assert result.code == 0, result.err
    phases = json.loads(result.out)["memory"]["phases"]
    return {phase["phase"]: phase["peak_bytes"] for phase in phases}


def advise(model: str | Path, *arguments: str) -> Result:
    return run("advise", CONFIG, *arguments, "--model", str(model), "--gpu", "h200")


def granite(folder: Path) -> Path:
    return write(folder, "granite", **WIDE)


def test_an_unknown_architecture_is_refused_and_the_trace_named(tmp_path: Path) -> None:
    result = advise(granite(tmp_path / "mine"))
    assert result.code == 2
    assert "models of type 'granite' are not modelled" in result.err
    assert "--trace counts the tensors of transformers' implementation" in result.err
    assert "pip install '.[trace]', in a copy of tuner's repository" in result.err


def test_what_transformers_does_not_know_is_not_promised(tmp_path: Path) -> None:
    result = advise(write(tmp_path / "mine", "made_up"))
    assert result.code == 2
    assert "the installed transformers does not implement it either" in result.err
    traced = advise(write(tmp_path / "mine", "made_up"), "--trace")
    assert traced.code == 2
    assert "does not implement models of type 'made_up'" in traced.err


@pytest.mark.sampled(32)
def test_an_unknown_architecture_gets_an_estimate(tmp_path: Path) -> None:
    folder = granite(tmp_path / "mine")
    result = advise(folder, "--trace", "--full")
    assert result.code == 0, result.err
    premise = " ".join(result.out.split())
    assert re.search(
        r"model mine, [\d.]+[MB] parameters \(--model; \S+config.json; traced with transf", premise
    )
    assert not result.err
    kept = "actor_rollout_ref.model.enable_gradient_checkpointing=false"
    small, large = (
        peaks(advise(folder, kept, f"{TOKENS}={tokens}", "--trace", "-f", "json"))["update_actor"]
        for tokens in (16384, 32768)
    )
    per_token = 16 * (9 * 2048 + 4 * 8192) * 2  # of 16 layers, at the least
    assert large - small > 16384 * per_token


def test_the_sum_names_the_trace(tmp_path: Path) -> None:
    folder = granite(tmp_path / "mine")
    assert "memory.layer.traced_layer.layer_bytes (model/trace)" in advise(folder, "--trace", "--explain").out
    report = json.loads(advise(folder, "--trace", "-f", "json").out)
    moments = [moment for phase in report["memory"]["phases"] for moment in phase["moments"]]
    terms = {term["name"]: term for moment in moments for term in moment["terms"]}
    assert terms["logits_backward"]["bytes"] == 2 * 16384 * 4096  # Granite scales its logits
    assert terms["layer_backward"]["evidence"] == "modelled"


def test_the_configurations_own_path_is_traced_too(tmp_path: Path) -> None:
    folder = granite(tmp_path / "mine")
    key = f"actor_rollout_ref.model.path={folder}"
    refused = run("advise", CONFIG, key, "--gpu", "h200")
    assert refused.code == 2
    assert peaks(run("advise", CONFIG, key, "--gpu", "h200", "--trace", "-f", "json"))


def test_check_and_estimate_memory_trace_as_well(tmp_path: Path) -> None:
    folder = str(granite(tmp_path / "mine"))
    for command in (("check", CONFIG), ("estimate-memory", "--tokens", "8k")):
        refused = run(*command, "--model", folder)
        assert refused.code == 2, command
        assert "--trace" in refused.err
    assert run("check", CONFIG, "--model", folder, "--trace", "--fail-on", "error").code == 0
    result = run("estimate-memory", "--tokens", "8k", "--model", folder, "--trace")
    assert result.code == 0
    assert "mine: all 16 layers" in result.out
    other = run("estimate-memory", "--dtype", "float32", "--model", folder, "--trace")
    assert other.code == 2
    assert "it computes in float32, and bfloat16 was counted" in other.err
    assert run("estimate-memory", "--vocab", "152k", "--trace").code == 2


def test_a_job_beyond_the_trace_is_refused(tmp_path: Path) -> None:
    folder = granite(tmp_path / "mine")
    result = advise(folder, "actor_rollout_ref.model.use_liger=true", "--trace")
    assert result.code == 2
    assert "Liger's kernels replace the layers that were counted" in result.err


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", ["Qwen2.5-0.5B", "Qwen3-0.6B", "gemma-2-2b", "Qwen3-30B-A3B"])
def test_a_known_job_is_estimated_alike(name: str) -> None:
    """The whole job, in which parameters, layers, norm and logits are counted instead of derived."""
    variants = [
        (),
        ("actor_rollout_ref.model.enable_gradient_checkpointing=false",),
        ("actor_rollout_ref.actor.strategy=fsdp2",),
        ("actor_rollout_ref.model.lora_rank=32",),
    ]
    for overrides in variants:
        derived = peaks(advise(name, *overrides, "-f", "json"))
        traced = peaks(advise(name, *overrides, "-f", "json", "--trace"))
        print(name, overrides, {phase: traced[phase] / derived[phase] - 1 for phase in derived})
        assert traced == pytest.approx(derived, rel=2e-4)


@pytest.mark.sampled(16)
def test_own_code_is_never_run(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    marker = tmp_path / "ran"
    auto_map = {"AutoConfig": "configuration_own.Own", "AutoModelForCausalLM": "modeling_own.Own"}
    for model_type, code in (("made_up", 2), ("granite", 0)):
        folder = write(tmp_path / model_type, model_type, auto_map=auto_map)
        for module in ("configuration_own", "modeling_own"):
            (folder / f"{module}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
        result = advise(folder, "--trace", "--full")
        assert result.code == code, result.err
        assert "auto_map" in result.err + result.out
    assert not marker.exists()


# -- processes -----------------------------------------------------------------------------


def timed(*arguments: str, cache: Path) -> tuple[Result, set[str]]:
    """A run in a process of its own, and which of the slow modules it imported."""
    env = {"PYTHONPROFILEIMPORTTIME": "1", "XDG_CACHE_HOME": str(cache)}
    result = process(*arguments, env=env)
    return result, set(IMPORTED.findall(result.err))


@pytest.mark.sampled(16)
def test_torch_is_imported_for_the_first_trace_alone(tmp_path: Path, cache: Path) -> None:
    folder = str(granite(tmp_path / "mine"))
    arguments = ("advise", CONFIG, "--model", folder, "--gpu", "h200", "--trace")
    first, imported = timed(*arguments, cache=cache)
    assert first.code == 0
    assert imported == {"torch", "transformers", "tuner.trace"}
    second, imported = timed(*arguments, cache=cache)
    assert imported == {"tuner.trace"}
    assert second.out == first.out


def test_without_the_option_nothing_of_it_is_imported(cache: Path) -> None:
    result, imported = timed("advise", CONFIG, "--gpu", "h200", cache=cache)
    assert result.code == 0
    assert not imported
    assert not cache.exists()


def test_without_the_extra_there_is_one_message(tmp_path: Path, cache: Path) -> None:
    """torch and transformers are hidden from the import system, as if they were not installed."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.metadata as metadata, importlib.util as util\n"
        "version, find_spec = metadata.version, util.find_spec\n"
        "def installed(name):\n"
        "    if name in ('torch', 'transformers'):\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return version(name)\n"
        "metadata.version = installed\n"
        "util.find_spec = lambda name, *rest: None if name == 'transformers' else find_spec(name, *rest)\n"
    )
    folder = str(granite(tmp_path / "mine"))
    env = {"PYTHONPATH": f"{hidden}:{ROOT}", "XDG_CACHE_HOME": str(cache)}
    plain = process("advise", CONFIG, "--model", folder, env=env)
    assert plain.code == 2
    assert "where transformers implements it, --trace counts its tensors" in plain.err
    traced = process("advise", CONFIG, "--model", folder, "--trace", env=env)
    assert traced.code == 2
    assert traced.err.splitlines() == [
        "error: --trace cannot work, torch is not installed; needs the extra: pip install '.[trace]', "
        "in a copy of tuner's repository"
    ]
