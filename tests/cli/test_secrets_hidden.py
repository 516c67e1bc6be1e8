"""No credential in any place reaches any output; and what is none stays readable."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.runner import Result, run
from tests.credentials import BARE, READABLE, SHAPED, VARIABLES
from tuner.cli.formats import FORMATS

pytestmark = pytest.mark.sampled(1)  # every day: what is shown by mistake cannot be taken back

ON = ("--gpu", "h100-sxm", "--verl-version", "0.9.1")
JOB = {
    "actor_rollout_ref": {
        "model": {"path": "Qwen/Qwen3-8B"},
        "rollout": {"name": "vllm", "gpu_memory_utilisation": 0.5},
        "actor": {"use_dynamic_bsz": True},
    },
    "algorithm": {"adv_estimator": "grpo"},
}
ALL = [text for text, _secret in SHAPED]


def numbered(name: str, values: list[str]) -> dict[str, str]:
    return {f"{name}{number}": value for number, value in enumerate(values)}


PLACES: dict[str, dict[str, object]] = {
    "a key that exists": {"data": {"train_files": ALL}, "trainer": {"experiment_name": ALL[0]}},
    "an unknown key": {"trainer": numbered("experiment_nam", [*ALL, *BARE])},
    "a section of one's own": {"mine": {"deep": {"list": [*ALL, *BARE], "one": BARE[0]}}},
    "headers": {
        "actor_rollout_ref": {
            "rollout": {"engine_kwargs": {"vllm": {"custom_headers": numbered("X-H", [*ALL, *BARE])}}}
        }
    },
    "variables": {"ray_kwargs": {"ray_init": {"runtime_env": {"env_vars": numbered("V", [*ALL, *BARE])}}}},
    "a logger": {"trainer": {"logger": [{"wandb": numbered("k", [*ALL, *BARE])}, *ALL]}},
    "a tool": {"actor_rollout_ref": {"rollout": {"multi_turn": {"tool_settings": {"login": [*ALL, *BARE]}}}}},
    "a key as such": {"mine": dict.fromkeys(ALL, 1)},
    "an extra": {"extra": {"password": BARE[0], "pin": 4711_1147, "api_key": BARE[1], "auth": BARE[2]}},
}


def laid(base: dict[str, object], over: dict[str, object]) -> dict[str, object]:
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = laid(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def leaks(text: str) -> list[str]:
    """The secrets that a text shows, also as JSON, HTML and addresses have them."""
    plain = text.replace("&amp;", "&").replace("\\/", "/").replace("%2F", "/").replace("%25", "%")
    secrets = [secret for _text, secret in SHAPED] + [*BARE, "47111147"]
    return [secret for secret in secrets if secret in text or secret.replace("%2F", "/") in plain]


def hides(result: Result, code: tuple[int, ...] = (0, 1)) -> None:
    assert result.code in code, result.err
    assert result.out + result.err
    assert leaks(result.out + result.err) == []


@pytest.mark.sampled(6)
@pytest.mark.parametrize("place", PLACES)
def test_no_command_shows_a_credential_of_a_file(place: str, tmp_path: Path) -> None:
    file, other = tmp_path / "config.yaml", tmp_path / "other.yaml"
    file.write_text(yaml.safe_dump(laid(JOB, PLACES[place]), sort_keys=False, width=2**20))
    other.write_text(yaml.safe_dump(JOB))
    for words in (("--full", "--explain"), ("-f", "json"), ("-f", "html")):
        hides(run("advise", str(file), *ON, *words))
    files = {form: tmp_path / f"out.{form}" for form in FORMATS}
    formats = [f"--output-format={form}:{to}" for form, to in files.items() if form != "concise"]
    hides(run("check", str(file), *ON, *formats, "--output-format=concise"))
    assert [leaks(to.read_text()) for form, to in files.items() if form != "concise"] == [[]] * len(formats)
    for form in ("text", "json", "markdown"):
        hides(run("diff", str(other), str(file), *ON, "-f", form, *(["--full"] if form == "text" else [])))
    for form in ("text", "json"):
        hides(run("config", str(file), "--verl-version", "0.9.1", "-f", form))
    baseline = tmp_path / "baseline.json"
    hides(run("check", str(file), *ON, "--write-baseline", str(baseline)))
    assert leaks(baseline.read_text()) == []
    hides(run("check", str(file), *ON, "--diff", "--unsafe-fixes"))


def script(words: list[str]) -> str:
    quoted = " \\\n    ".join(word if "=$" in word else f"'{word}'" for word in words)
    assigned = "\n".join(
        f"export {name}='{value}'" for name, value in zip(VARIABLES, [*BARE, *BARE, *BARE], strict=True)
    )
    lines = "\n".join(f"export VAR_{number}='{text}'" for number, text in enumerate(ALL))
    return f"""{assigned}
{lines}
export MODEL_PATH=Qwen/Qwen3-8B NNODES=2 # login with {BARE[1]}
curl -H 'X-Team: {BARE[1]}' -u reader:{BARE[0]} https://example.org
DB_PASS={BARE[0]} env FOO={BARE[1]} python3 -m verl.trainer.main_ppo \\
    actor_rollout_ref.model.path=$MODEL_PATH \\
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.actor.use_dynamic_bsz=True trainer.nnodes=$NNODES \\
    algorithm.adv_estimator=grpo actor_rollout_ref.rollout.gpu_memory_utilisation=0.5 \\
    {quoted}
"""


OVERRIDES = {
    "given": [f'+mine.k{number}="{text}"' for number, text in enumerate([*ALL, *BARE])],
    "passed on": [f"+ray_kwargs.ray_init.runtime_env.env_vars.{name}=${name}" for name in VARIABLES],
}


@pytest.mark.parametrize("kind", OVERRIDES)
def test_no_command_shows_a_credential_of_a_script(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(script(OVERRIDES[kind]))
    for words in (("--full",), ("-f", "json")):
        hides(run("advise", str(file), *ON, *words))
    for form in ("full", "sarif", "markdown", "junit", "github", "json"):
        hides(run("check", str(file), *ON, f"--output-format={form}"))
    for form in ("text", "json"):
        hides(run("config", str(file), "--verl-version", "0.9.1", "-f", form))
        hides(run("diff", str(file), str(file), "trainer.nnodes=3", *ON, "-f", form))
    told = run("advise", str(file), *ON, "--full").out
    assert "Qwen3-8B" in told
    file.write_text(script(OVERRIDES[kind]).replace("algorithm.adv_estimator=grpo", "# why\n "))
    hides(run("check", str(file), *ON, "--output-format=full"))  # what stands behind the comment is lost


@pytest.mark.sampled(5)
@pytest.mark.parametrize("text", [*ALL, *(f"DB_PASS={value}" for value in BARE)])
def test_no_message_shows_a_credential_of_a_word(text: str) -> None:
    for words in (
        ("advise", text),
        ("advise", "/dev/null", f"+mine.x=[{text}"),
        ("advise", "/dev/null", f"actor_rollout_ref.actor.strategy='{text}'", "--gpu", "h100-sxm"),
        ("advise", "/dev/null", f"trainer.nnodes='{text}'", "actor_rollout_ref.model.path=Qwen/Qwen3-8B"),
        ("advise", "/dev/null", f"+mine.x={text}&("),
        ("advise", "/dev/null", "--gpu", text),
        ("config", "/dev/null", "--verl-version", text),
        ("rule", text),
        (text,),
    ):
        assert leaks((result := run(*words)).out + result.err) == [], words


def test_no_credential_of_an_error_is_shown(tmp_path: Path) -> None:
    printed = tmp_path / "error.txt"
    lines = "\n".join(f"(pid=1) {text}" for text in ALL)
    env = "\n".join(f"{name}={value}" for name in VARIABLES for value in BARE)
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    printed.write_text(f"{lines}\n{env}\n{oom} {ALL[0]}\n")
    for form in ("text", "json"):
        hides(run("explain-oom", "--message", str(printed), "-f", form))
    broken = tmp_path / "broken.yaml"
    for text in ALL:
        broken.write_text(f"a: [{json.dumps(text)}\nb: '{text}'x\n")
        hides(run("advise", str(broken)), (2,))


def test_settings_that_are_run_again_carry_what_they_have(tmp_path: Path) -> None:
    words = ("+trainer.hub_token=" + SHAPED[0][0], f"+mine.x={BARE[1]}", f"+trainer.db_pass={BARE[0]}")
    for form in ("yaml", "overrides"):
        result = run("config", "/dev/null", "--verl-version", "0.9.1", "-f", form, *words)
        assert all(word.partition("=")[2] in result.out for word in words)
        assert "written as they stand: trainer.hub_token, trainer.db_pass" in result.err
        assert leaks(result.err) == []
    assert run("config", "/dev/null", "--verl-version", "0.9.1", "-f", "yaml", "trainer.nnodes=2").err == ""
    file = tmp_path / "run.sh"
    file.write_text(script(["trainer.n_gpus_per_node=8"]) + "")
    text = file.read_text()
    assert run("check", str(file), *ON, "--fix").code in (0, 1)
    assert all(line in file.read_text() for line in text.splitlines() if line.startswith("export"))


def test_what_is_no_secret_stays_readable(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    known = {"data": {"train_files": list(READABLE), "prompt_key": "question"}}
    own = {
        "mine": {"pad_token": "<|endoftext|>", "tensor_model_parallel_size": 4, "lr": 1e-6, "on": True},
        "ray_kwargs": {"ray_init": {"runtime_env": {"env_vars": {"NCCL_DEBUG": "INFO", "VLLM_USE_V1": "1"}}}},
    }
    file.write_text(yaml.safe_dump(laid(laid(JOB, known), own), sort_keys=False, width=2**20))
    for form in ("text", "json"):
        told = run("config", str(file), "--verl-version", "0.9.1", "-f", form).out
        assert [value for value in READABLE if value not in told] == []
        wanted = ("<|endoftext|>", "NCCL_DEBUG", "INFO", "VLLM_USE_V1", "question", "gpu_memory_utilisation")
        assert [value for value in wanted if value not in told] == []
        assert "hidden" not in told
