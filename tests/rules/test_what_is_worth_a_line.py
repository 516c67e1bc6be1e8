"""Which changes are worth a line of the block: what a job needs, then what brings its share of the step."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.cli.runner import Result, run
from tests.corpus import launches
from tests.readings import advice_of
from tests.rules.test_advise import finding, too_large
from tests.workloads import ALL, dynamic, grpo_7b
from tuner.advise.acceptance import MOST_LINES
from tuner.advise.worth import is_worth_a_line
from tuner.findings import Finding, Goal, Numerics, Severity
from tuner.timing import StepChange

pytestmark = pytest.mark.sampled(6)

CONFIG = "docs/examples/qwen2.5-7b-grpo.yaml"
CARD = ("trainer.n_gpus_per_node=8", "--gpu", "h100-sxm", "--verl-version", "0.7.1")


def advised(*arguments: str) -> Result:
    return run("advise", CONFIG, *CARD, *arguments)


def answer(*arguments: str) -> Any:
    return json.loads(advised("-f", "json", *arguments).out)


def shares(report: Any) -> list[float]:
    """The shares of the step that the lines bring which the job does not need."""
    block = report["combination"]
    return [
        1 - block["seconds"] / part["without"]["seconds"]
        for part in block["contributions"]
        if not part["needed"]
    ]


@pytest.mark.parametrize("least", [0.03, 0.09, 0.12])
def test_each_line_brings_its_share_the_dearest_first(least: float) -> None:
    brought = shares(answer("--least-gain", str(least)))
    assert min(brought) >= least
    assert brought == sorted(brought, reverse=True)


def test_the_share_decides_what_is_pasted() -> None:
    few, many = (answer("--least-gain", least)["combination"] for least in ("0.12", "0.01"))
    assert 0 < len(few["overrides"]) < len(many["overrides"])
    assert few["seconds"] > many["seconds"]


def test_a_share_is_one_of_the_step() -> None:
    refused = advised("--least-gain", "3")
    assert refused.code == 2
    assert "--least-gain" in refused.err


def test_no_more_lines_than_a_reader_answers_for() -> None:
    for workload in (too_large(), *(make() for make in ALL)):
        block = advice_of(workload).combination
        assert block is not None
        needed = sum(len(part.overrides) for part in block.contributions if part.needed)
        assert len(block.overrides) <= max(MOST_LINES, needed)


def with_package(found: Finding) -> Finding:
    return replace(found, rule=replace(found.rule, package="some-kernels"))


def test_what_needs_a_package_stands_apart() -> None:
    report = answer()
    block, (addition,) = report["combination"], report["additions"]
    assert not block["packages"]
    assert addition["package"] == "liger-kernel"
    assert not set(addition["overrides"]) & set(block["overrides"])
    assert addition["seconds_before"] == block["seconds"]
    share = f"{1 - addition['seconds'] / block['seconds']:.0%}"
    assert f"With liger-kernel installed: {share} more of the step" in advised().out
    followed = answer(*block["overrides"], *addition["overrides"])
    assert followed["step_time"]["seconds"] == pytest.approx(addition["seconds"])


def test_a_block_needs_a_package_only_where_nothing_fits_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.advise.ways_to_fit._fewer_at_once", lambda base: ())
    workload = too_large()
    smaller = finding("fits", workload.with_actor(update=dynamic(16384)), goal=Goal.MEMORY)
    needed = advice_of(workload, [with_package(smaller)]).combination
    assert needed is not None
    assert needed.packages == ("some-kernels",)
    both = advice_of(workload, [with_package(smaller), smaller]).combination
    assert both is not None
    assert both.packages == ()


def test_a_line_says_what_it_costs_the_host_and_the_training() -> None:
    shown = " ".join(advised().out.split())
    block = answer()["combination"]
    effects = {"exact": "same numerics", "reordered": "rounding"}
    for part in block["contributions"]:
        share = f"{1 - block['seconds'] / part['without']['seconds']:.0%}"
        line = shown[shown.index(f"{part['code']} ") - len(f"{share} of the step ") :]
        assert line.startswith(f"{share} of the step {part['code']} ")
        said = line[line.index("(") + 1 : line.index(")")]
        assert said.split("; ")[0] == effects[part["numerics"]]
        assert "host memory +" in said or ";" not in said


def launched(path: str, release: str, *arguments: str) -> str:
    launch = next(
        launch for launch in launches() if launch["path"] == path and f"v{release}" in launch["tags"]
    )
    card = ("--gpu", "h100-sxm", "--verl-version", release)
    return run("advise", "/dev/null", *card, *arguments, "--", *launch["overrides"]).out


def test_what_is_yours_to_decide_has_its_price_and_its_override() -> None:
    text = launched("examples/grpo_trainer/run_qwen3_vl-30b-megatron.sh", "0.7.1")
    told = text[text.index("What matters most") :]
    decision = told[told.index("BAT002") :]
    assert "% shorter" in decision
    assert "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=18432" in decision


def test_a_decision_that_is_no_better_than_the_block_is_not_told() -> None:
    """Larger micro-batches and kept activations do not go together, and the block is the shorter of both."""
    report = answer()
    (other,) = (item for item in report["findings"] if item["code"] == "BAT004")
    assert other["price"]["seconds_after"] > report["combination"]["seconds"]
    assert "BAT004" not in advised().out


@pytest.mark.parametrize(
    ("effect", "least", "told"),
    [
        (Numerics.REORDERED, 0.001, True),
        (Numerics.REWEIGHTED, 0.001, False),
        (Numerics.CHANGED, 0.001, False),
        (Numerics.REWEIGHTED, 0.02, True),
    ],
)
def test_what_changes_the_training_is_told_where_its_low_end_is_a_gain(
    effect: Numerics, least: float, told: bool
) -> None:
    """Seven percent that may be a thousandth cost nothing to paste; a trial of another training they do."""
    workload = grpo_7b()
    shorter = workload.with_actor(log_prob=dynamic(65536))
    workload = workload.with_actor(log_prob=dynamic(4096))
    advice = replace(advice_of(workload, [finding("shorter", shorter)]), combination=None)
    (item,) = advice.recommendations
    assert item.price is not None
    change = StepChange(seconds=-1.4, share=-0.07, low_share=-0.09, high_share=-least)
    price = replace(item.price, seconds_before=20.0, seconds_after=18.6, change=change)
    item = replace(item, price=price, numerics=effect, yours=effect is not Numerics.REORDERED)
    assert is_worth_a_line(item, advice) is told


def test_the_fix_without_which_a_job_may_not_fit_is_not_called_a_help_for_others() -> None:
    path = "examples/sglang_multiturn/geo3k/run_qwen2.5-3b_megatron_geo3k_multiturn.sh"
    launch = next(launch for launch in launches() if launch["path"] == path)
    text = run(
        "advise", "/dev/null", "--gpu", "h100-sxm", "--verl-version", "0.4.1", "--", *launch["overrides"]
    ).out
    (line,) = (line for line in text.splitlines() if "CFG168 " in line and "recomputation-unread" not in line)
    assert line.split("CFG168")[0].strip() == "makes it fit"


LINE = "True, and worth little here: "


LARGER = ("data.train_batch_size=128", "actor_rollout_ref.actor.ppo_mini_batch_size=256")
FUSED = ("actor_rollout_ref.model.use_fused_kernels=True",)
LONG = (
    *("data.max_response_length=8192", "actor_rollout_ref.rollout.enforce_eager=True"),
    *("data.train_batch_size=32", "actor_rollout_ref.actor.ppo_mini_batch_size=32"),
)


@pytest.mark.parametrize(
    ("words", "code", "fine"),
    [
        ((*LARGER, "actor_rollout_ref.actor.use_dynamic_bsz=True"), "CFG111", True),
        ((*LARGER, "actor_rollout_ref.actor.use_dynamic_bsz=False"), "CFG111", False),  # which refuses it
        ((*FUSED, *LONG), "CFG169", True),
        (FUSED, "CFG169", False),  # 8 % of the step
    ],
)
def test_what_is_true_and_buys_nothing_has_its_code_in_one_line(
    words: tuple[str, ...], code: str, fine: bool
) -> None:
    """A divisor of the loss is hidden by the optimizer, and what a release rounds it rounds for everybody."""
    before, _line, after = " ".join(advised(*words).out.split()).partition(LINE)
    assert (code in after) is fine
    assert (code in before) is not fine
    assert code in advised(*words, "--full").out


@pytest.mark.parametrize("scaled", [False, True])
def test_a_block_that_makes_other_micro_batches_of_a_loss_nothing_divides_says_so(scaled: bool) -> None:
    """What the user lives with is not what the block brings: gradients of another size."""
    workload = too_large().with_batch(budgets_scale_loss=True)
    smaller = finding("fits", workload.with_actor(update=dynamic(16384)), goal=Goal.MEMORY)
    warning = finding("scale", None, goal=Goal.CORRECTNESS, severity=Severity.WARNING)
    warning = replace(warning, rule=replace(warning.rule, fine_print=True))
    allow = (Numerics.REWEIGHTED,) if scaled else ()
    advice = advice_of(workload, [smaller, warning], allow=allow)
    assert (advice.combination is not None) is scaled
    (item,) = (item for item in advice.recommendations if item.finding.rule.name == "scale")
    assert is_worth_a_line(item, advice) is scaled


TIGHT = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.n=8",
    "data.train_batch_size=256",
    "data.max_prompt_length=512",
    "data.max_response_length=1024",
    "actor_rollout_ref.actor.ppo_mini_batch_size=64",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.actor.use_kl_loss=True",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=2",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
    "trainer.n_gpus_per_node=8",
)


@pytest.mark.parametrize(("size", "told"), [(164, True), (64, False)])
def test_what_costs_nothing_and_makes_a_tight_job_sure_is_told(size: int, told: bool) -> None:
    """Logits of 164 sequences may not fit, with the block neither; those of 128 take as long."""
    sizes = [
        f"actor_rollout_ref.{role}.log_prob_micro_batch_size_per_gpu={size}" for role in ("rollout", "ref")
    ]
    given = ("/dev/null", *TIGHT, *sizes, "--gpu", "8xh100-sxm", "--verl-version", "0.7.1")
    advice, listed = run("advise", *given).out, run("check", *given).out
    assert ("BAT010" in advice.partition("What matters most")[2]) is told
    assert ("advice BAT010" in listed) is told


def test_a_job_that_surely_fits_is_told_of_no_headroom() -> None:
    """vLLM's own fraction of 0.9 leaves less than a tenth of the card, and fits for certain."""
    words = [word for word in TIGHT if "memory_utilization" not in word]
    words += [
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.9",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16",
    ]
    given = ("/dev/null", *words, "--gpu", "8xh100-sxm", "--verl-version", "0.5.0")
    advice = run("advise", *given).out
    assert advice.startswith("FITS")
    assert "less than the headroom" in " ".join(advice.split())
    assert "ROL002" not in advice.partition("What matters most")[2]
    assert "ROL002" in run("advise", *given, "--full").out
