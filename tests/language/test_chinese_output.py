"""What the program says in Chinese: whole outputs, their columns, and no English sentence among them."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from docs.tools.lint_catalogue import kept_words
from tests.cli.golden import expect
from tests.cli.runner import run
from tests.tables import HEADROOM, scene, table
from tuner import rules
from tuner.catalogues import catalogue
from tuner.language import _, using
from tuner.render.columns import columns
from tuner.render.wrapping import wrapped
from tuner.rules.case import Case

pytestmark = pytest.mark.sampled(6)

GOLDEN = Path(__file__).parent / "golden"
EXAMPLE = "docs/examples/qwen2.5-7b-grpo.yaml"
H100 = ("--gpu", "h100-sxm")
WHOLE = {
    "advise.txt": ("advise", EXAMPLE, *H100),
    "advise-full.txt": ("advise", EXAMPLE, *H100, "--full"),
    "advise.html": ("advise", EXAMPLE, *H100, "-f", "html"),
    "check.txt": ("check", EXAMPLE, *H100),
    "rule.txt": ("rule", "rollout-memory-fraction"),
    "estimate-memory.txt": ("estimate-memory", "--model", "qwen2.5-7b"),
}
_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
LAUNCHES = (
    (),
    ("--full",),
    ("--explain",),
    ("--gpu", "a100-40g"),
    ("--gpu", "a100-40g", "--full"),
    ("--gpu", "8xh200", "--nodes", "2", "--full"),
    ("--model", "qwen3-8b", "--full"),
    ("--mean-response-length", "1000", "--full"),
    ("--mean-response-length", "400", "--response-p95", "900"),
    ("--allow", "changed"),
    ("--host-memory", "100", "--full"),
    ("--failed-allocation", "18.54 GiB"),
    (f"{_ROLLOUT}.gpu_memory_utilization=0.1",),
    (f"{_ROLLOUT}.gpu_memory_utilization=0.95", "--full"),
    (f"{_ROLLOUT}.name=sglang", "--full"),
    (f"{_ACTOR}.use_dynamic_bsz=True", f"{_ACTOR}.ppo_max_token_len_per_gpu=65536"),
    (f"{_ACTOR}.strategy=fsdp2", "--full"),
    (f"{_ACTOR}.ppo_mini_batch_size=7",),
    (f"{_ACTOR}.fsdp_config.param_offload=True", "--explain"),
    ("algorithm.adv_estimator=gae", "--full"),
    ("--verl-version", "0.6.5", "--full"),
    ("--verl-version", "0.4.1", f"{_ACTOR}.no_such_key=3", f"{_ACTOR}.ppo_micro_batch_size=64"),
    (f"{_ROLLOUT}.multi_turn.enable=True", "reward_model.enable=True", "--full"),
    (
        "actor_rollout_ref.model.use_fused_kernels=True",
        f"{_ACTOR}.use_liger=True",
        "trainer.n_gpus_per_node=6",
    ),
)
RULES = [module.RULE.code for module in rules.modules()]
_WORD = re.compile(r"(?<![\w.%/=_:-])[a-z][a-z'-]+(?![\w%/=_-]|[.:]\w)")
_SENTENCE = 4  # English words in a row that no name has


def _said(*arguments: str) -> str:
    result = run("--lang", "zh", *arguments)
    assert result.code in (0, 1), result.err
    return result.out


@pytest.mark.parametrize("name", WHOLE)
def test_whole_output(name: str) -> None:
    expect(name, _said(*WHOLE[name]), folder=GOLDEN)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("overrides", LAUNCHES, ids=" ".join)
def test_no_english_sentence_is_left(overrides: tuple[str, ...]) -> None:
    named = () if "--gpu" in overrides else H100
    text = " ".join(_said("advise", EXAMPLE, *named, *overrides).split())
    assert english(text) == []


@pytest.mark.sampled(6)
@pytest.mark.parametrize("module", rules.modules(), ids=lambda module: module.RULE.name)
def test_what_a_rule_says_has_no_english(module: ModuleType) -> None:
    """On the example of its own table, where it speaks for certain."""
    example = table(module.RULE.name)
    workload = scene(example.bad_base, example.bad).workload
    with using(catalogue("zh", source="--lang")):
        finding = module.check(Case.of(workload, headroom=HEADROOM))
        assert finding is not None
        texts = (finding.message, *finding.notes, _(module.RULE.summary))
    assert [text for text in texts if english(text) or not re.search("[\u4e00-\u9fff]", text)] == []


def english(text: str) -> list[str]:
    """Runs of English words that a Chinese text does not keep."""
    runs = re.findall(rf"(?:{_WORD.pattern}[ ,;]+){{{_SENTENCE - 1},}}{_WORD.pattern}", text)
    return [run for run in runs if len(set(_WORD.findall(run)) - kept_words()) >= _SENTENCE - 1]


def test_an_english_sentence_would_be_found() -> None:
    assert english("放得下：no change is worth a percent of the step。") != []
    assert english("rollout 的峰值为 34.7 GiB，见 actor_rollout_ref.model.path。") == []


@pytest.mark.parametrize("width", [40, 80, 100])
def test_lines_keep_within_the_screen(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    with using(catalogue("zh", source="--lang")):
        text = _said("advise", EXAMPLE, *H100)
        lines = [line for line in text.splitlines() if "=" not in line and " KRN" not in line]
        lines = [line for line in lines if not re.fullmatch(r" *[a-z_.]+", line)]  # a key is never broken
        with using(catalogue("zh", source="--lang")):
            assert [line for line in lines if columns(line) > width] == []


def test_tables_are_aligned_by_columns_of_the_screen() -> None:
    lines = _said("estimate-memory", "--vocab", "152k").splitlines()
    table = [line for line in lines if line.endswith("GiB")]
    with using(catalogue("zh", source="--lang")):
        assert len(table) > 5
        assert len({columns(line) for line in table}) == 1


def test_bars_end_in_one_column() -> None:
    bars = re.compile(r"(.*[│▼])  \S.*")
    lines = [bar[1] for bar in map(bars.fullmatch, _said("advise", EXAMPLE, *H100).splitlines()) if bar]
    with using(catalogue("zh", source="--lang")):
        assert len(lines) > 5
        assert len({columns(line) for line in lines}) == 1


def test_no_line_begins_with_punctuation_that_ends_something() -> None:
    text = "显存不足，见（全部）设置；另见 actor_rollout_ref.model.path。" * 5
    with using(catalogue("zh", source="--lang")):
        for width in range(20, 60):
            lines = wrapped(text, width, first="", rest="  ").splitlines()
            assert not [line for line in lines if line.lstrip()[0] in "，。；：）、"]
            assert not [line for line in lines if line[-1] in "（“"]
            assert "".join("".join(line.split()) for line in lines) == "".join(text.split())


def test_html_names_its_language() -> None:
    assert '<html lang="zh-CN">' in _said("advise", EXAMPLE, *H100, "-f", "html")
