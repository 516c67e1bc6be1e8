"""The verl-update part: what it plans, what it says of figures, and the command with verl's own worker."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from tests.cli.runner import ROOT
from tests.validate.recorder import machine
from tests.validate.training.test_training_step import options, subject
from tuner.models import find_config
from tuner.render.schemas import schema
from tuner.units import GIB
from tuner.validate.children import processes
from tuner.validate.children.call import CallFailure, Failed, Setup
from tuner.validate.report.schema import Machine, Measurement, Outcome
from tuner.validate.session import NotHereError, Options, OutOfBudgetError, Subject
from tuner.validate.training.passes import PlannedPass
from tuner.validate.training.settings import ModelSettings, PassFigures
from tuner.validate.training.worker.verl_build import fused_backend
from tuner.validate.verl_update import part
from tuner.validate.verl_update import plan as planning
from tuner.validate.verl_update.plan import PlannedUpdate, left_of, planned_update, seconds
from tuner.validate.verl_update.settings import (
    MICRO_BATCHES,
    RELEASES,
    SHARES,
    EngineUpdate,
    Update,
    UpdateFigures,
    UpdateWork,
)
from tuner.versions import installed_version
from tuner.workload import Backend, HeadKind

pytestmark = pytest.mark.sampled(6)

LOGITS = "actor_rollout_ref.model.use_fused_kernels=False"
FUSED = "actor_rollout_ref.model.use_fused_kernels=True"
FSDP2 = "actor_rollout_ref.actor.strategy=fsdp2"
SHARED = "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"
UNTIED = "DeepSeek-R1-Distill-Qwen-1.5B"
HERE = machine().free_bytes


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release of verl, and flash-attn, as far as the parent looks."""
    monkeypatch.setattr(planning, "installed_version", lambda package: "0.9.1")
    monkeypatch.setattr(planning, "find_spec", lambda name: name)


def planned(one: Subject, memory_bytes: int = HERE, **changes: Any) -> PlannedUpdate:
    return planned_update(one, options(**changes), memory_bytes=memory_bytes)


def test_verls_own_attention_asks_where_sequences_begin() -> None:
    plan = planned(subject(FSDP2))
    for update in (plan.theirs, plan.ours):
        assert update.workload.actor.engine.reads_positions and update.case.reads_positions


Change = Callable[[UpdateFigures, UpdateWork], UpdateFigures]


def truthful(figures: UpdateFigures, work: UpdateWork) -> UpdateFigures:
    return figures


@dataclass(kw_only=True)
class Bench:
    """A session whose GPU takes what is predicted, as far as ``change`` does not say otherwise."""

    subject: Subject
    options: Options = field(default_factory=options)
    machine: Machine = field(default_factory=machine)
    change: Change = truthful
    failed: Failed | None = None  # in the place of what our head comes to
    left_s: float = 10_000.0
    log_probs: tuple[float, ...] = (-12.0, -11.99)  # of our head; those of verl's are -12
    measurements: dict[str, Measurement] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    works: list[UpdateWork] = field(default_factory=list)
    models: list[ModelSettings] = field(default_factory=list)

    def run(self) -> "Bench":
        part.run(self)
        return self

    def call(self, function: str, model: ModelSettings, work: UpdateWork, **_: Any) -> Any:
        assert function == part.WORKER
        self.works.append(work)
        self.models.append(model)
        if work.ours and self.failed is not None:
            return self.failed
        plan = planned_update(self.subject, self.options, memory_bytes=HERE).head(ours=work.ours)
        assert plan.settings.tokens == work.settings.tokens
        return EngineUpdate(
            log_probs=self.log_probs if work.ours else (-12.0, -12.0),
            rounded=False,
            largest_logit=4.0 if work.settings.head.kind is HeadKind.LOGITS else None,
            mean_advantage=0.8,
            updates=tuple(self.change(as_predicted(plan, update), work) for update in work.updates),
        )

    def add(self, measurement: Measurement) -> None:
        assert measurement.name not in self.measurements
        self.measurements[measurement.name] = measurement

    def note(self, text: str) -> None:
        self.notes.append(text)

    def add_case(self, case: object) -> None:
        raise AssertionError("an update of several whole micro-batches is not recorded")

    def judge(self, judged: object) -> None:
        raise AssertionError("no recommendation is about what is put inside verl")

    def is_measured(self, found: object) -> bool:
        return False

    @property
    def outcomes(self) -> dict[str, Outcome | None]:
        return {name: measurement.outcome for name, measurement in self.measurements.items()}


def as_predicted(plan: PlannedPass, update: Update) -> UpdateFigures:
    plan = left_of(plan, update.share) if update.skip else plan
    allocated = [
        sum(term.bytes for term in moment.terms if term.of_allocator) for moment in plan.predicted.moments
    ]
    states = sum(
        term.bytes
        for term in plan.predicted.moments[0].terms
        if term.name in ("actor_parameters", "actor_optimizer")
    )
    taken = seconds(plan).seconds
    return UpdateFigures(
        update=update,
        figures=PassFigures(
            engine="verl 0.9.1",
            allocated_before_bytes=states,
            peak_allocated_bytes=max(allocated),
            peak_requested_bytes=max(allocated),
            peak_reserved_bytes=max(allocated),
            non_torch_bytes=GIB,
            seconds=(taken, 1.01 * taken)[: update.repetitions],
        ),
        loss=0.2,
        grad_norm=1.5,
        left_out=update.share if update.skip else None,
    )


def test_a_card_that_takes_what_is_predicted_confirms_it_all() -> None:
    bench = Bench(subject=subject(LOGITS)).run()
    claimed = {name for name, outcome in bench.outcomes.items() if outcome is not None}
    assert set(bench.outcomes.values()) <= {Outcome.CONFIRMED, None}
    for which in ("verl_head", "tuner_head", "skip_0", "skip_50", "skip_75"):
        for figure in ("peak", "reserved", "seconds"):
            assert f"verl_update.{which}.{figure}" in claimed
    assert claimed >= {
        *(f"verl_update.tuner_head.{name}" for name in ("log_probs", "loss", "grad_norm", "peak_change")),
        *(f"verl_update.skip_{share:.0f}.grad_norm" for share in (0, 50, 75)),
        *(f"verl_update.skip_{share:.0f}.saved" for share in (50, 75)),
    }
    # Computing the logits again is modelled to take longer: nothing is claimed to be saved.
    assert bench.measurements["verl_update.tuner_head.saved"].outcome is None
    assert bench.notes == []


def test_both_heads_run_the_same_update_and_the_skip_comes_last() -> None:
    bench = Bench(subject=subject(LOGITS)).run()
    theirs, ours = bench.works
    assert (theirs.ours, ours.ours) == (False, True)
    assert theirs.settings.head.kind is HeadKind.LOGITS
    assert replace(theirs.settings, head=ours.settings.head) == ours.settings
    assert theirs.settings.micro_batches == MICRO_BATCHES
    assert theirs.settings.first_tokens is None
    assert [update.skip for update in theirs.updates] == [False] * 3 + [True] * 3
    assert [update.share for update in theirs.updates] == [*SHARES, *SHARES]
    assert [update.skip for update in ours.updates] == [False]


def test_our_head_makes_the_peak_lower_by_what_is_predicted() -> None:
    change = Bench(subject=subject(LOGITS)).run().measurements["verl_update.tuner_head.peak_change"]
    assert change.predicted is not None
    assert change.measured < 0
    assert change.measured == pytest.approx(change.predicted)


def more_bytes(figures: UpdateFigures, work: UpdateWork) -> UpdateFigures:
    peak = figures.figures.peak_allocated_bytes
    assert peak is not None
    return replace(figures, figures=replace(figures.figures, peak_allocated_bytes=int(1.2 * peak)))


def slower_skip(figures: UpdateFigures, work: UpdateWork) -> UpdateFigures:
    if not figures.update.skip:
        return figures
    return replace(figures, figures=replace(figures.figures, seconds=(1000.0, 1000.0)))


def another_gradient(figures: UpdateFigures, work: UpdateWork) -> UpdateFigures:
    return replace(figures, grad_norm=2.0) if figures.update.skip or work.ours else figures


@pytest.mark.parametrize(
    ("change", "refuted"),
    [
        (more_bytes, ("verl_head.peak", "tuner_head.peak", "skip_50.peak")),
        (slower_skip, ("skip_50.saved", "skip_75.saved", "skip_75.seconds")),
        (another_gradient, ("skip_0.grad_norm", "skip_50.grad_norm", "tuner_head.grad_norm")),
    ],
)
def test_what_is_not_as_claimed_is_refuted(change: Change, refuted: tuple[str, ...]) -> None:
    outcomes = Bench(subject=subject(LOGITS), change=change).run().outcomes
    assert {outcomes[f"verl_update.{name}"] for name in refuted} == {Outcome.REFUTED}
    assert outcomes["verl_update.tuner_head.log_probs"] is Outcome.CONFIRMED


def test_log_probabilities_may_be_off_by_rounding_alone() -> None:
    off = Bench(subject=subject(LOGITS), log_probs=(-12.0, -11.9)).run().measurements
    found = off["verl_update.tuner_head.log_probs"]
    assert found.measured == pytest.approx(0.1)
    assert found.high == pytest.approx(4 * 4.0 / 256)
    assert found.outcome is Outcome.REFUTED


def test_where_verl_shows_no_logits_nothing_is_claimed_of_the_results() -> None:
    bench = Bench(subject=subject(FUSED)).run()
    assert bench.works[0].settings.head.kind is not HeadKind.LOGITS
    for name in ("log_probs", "loss", "grad_norm"):
        assert bench.measurements[f"verl_update.tuner_head.{name}"].outcome is None
    assert bench.outcomes["verl_update.verl_head.peak"] is Outcome.CONFIRMED


def test_a_model_in_which_verls_fused_heads_stop_is_run_with_logits() -> None:
    one = subject(FSDP2, model=UNTIED)
    found = planned(replace(one, workload=one.workload.with_actor_head(kind=HeadKind.FUSED_TORCH)))
    assert found.theirs.settings.head.kind is HeadKind.LOGITS
    assert found.ours.settings.head.kind is HeadKind.FUSED_TUNER
    assert "weights that FSDP2 has not gathered" in found.notes[0]


def test_a_job_that_has_our_head_is_held_against_logits() -> None:
    one = subject(FUSED, "actor_rollout_ref.model.external_lib=tuner.inside_verl")
    found = planned(one)
    assert found.theirs.settings.head.kind is HeadKind.LOGITS
    assert found.ours.settings.head.kind is one.workload.actor.head.kind is HeadKind.FUSED_TUNER
    # verl puts a head of ours in the place of one of its own, so it has to be asked for one.
    assert fused_backend(found.ours.settings.head) and not fused_backend(found.theirs.settings.head)


def test_half_of_the_responses_left_out_is_half_of_the_micro_batches() -> None:
    theirs = planned(subject(LOGITS)).theirs
    assert [left_of(theirs, share).case.micro_batches for share in SHARES] == [4, 2, 1]
    whole, half = seconds(theirs).seconds, seconds(left_of(theirs, 0.5)).seconds
    assert 0.5 * whole < half < whole


def test_an_engine_that_runs_out_of_memory_leaves_the_other_figures() -> None:
    failed = Failed(why=CallFailure.OUT_OF_MEMORY, message="CUDA out of memory")
    bench = Bench(subject=subject(LOGITS), failed=failed).run()
    assert "ran out of memory, with a peak of" in bench.notes[0]
    assert bench.outcomes["verl_update.skip_50.seconds"] is Outcome.CONFIRMED
    assert not [name for name in bench.measurements if "tuner_head" in name]


def test_another_failure_is_said() -> None:
    failed = Failed(why=CallFailure.ERROR, message="ImportError: no such thing.")
    (note,) = Bench(subject=subject(LOGITS), failed=failed).run().notes
    assert note.endswith("tokens: ImportError: no such thing.")


def test_less_time_takes_fewer_repetitions() -> None:
    whole = Bench(subject=subject(LOGITS)).run().works[0].updates
    short = Bench(subject=subject(LOGITS), left_s=60.0).run().works[0].updates
    assert max(update.repetitions for update in whole) == 2
    assert max(update.repetitions for update in short) == 1
    assert sum(planned.seconds for planned in part.plan(subject(LOGITS), options())) > 60.0


def test_no_time_at_all_ends_the_part_with_what_is_there() -> None:
    class Hurried(Bench):
        def call(self, function: str, model: ModelSettings, work: UpdateWork, **given: Any) -> Any:
            if work.ours:
                raise OutOfBudgetError("too late")
            return super().call(function, model, work, **given)

    bench = Hurried(subject=subject(LOGITS))
    with pytest.raises(OutOfBudgetError):
        bench.run()
    assert "verl_update.skip_75.peak" in bench.measurements


def test_a_small_card_takes_fewer_layers_and_then_fewer_tokens() -> None:
    one = subject(LOGITS)
    whole = planned(one)
    assert whole.layers == one.workload.model.layers
    assert whole.notes == ()
    needed = max(whole.theirs.predicted.peak_bytes, whole.ours.predicted.peak_bytes)
    cut = planned(one, memory_bytes=int(0.8 * needed))
    assert cut.layers < whole.layers
    assert cut.theirs.case.tokens == whole.theirs.case.tokens
    assert "layers" in cut.notes[0]
    smaller = planned(one, memory_bytes=10 * GIB)
    assert smaller.theirs.case.tokens == smaller.ours.case.tokens < whole.theirs.case.tokens
    assert "those of the job have" in smaller.notes[0]
    for update in (cut, smaller):
        assert update.theirs.model.layers == update.ours.model.layers == update.layers
    with pytest.raises(NotHereError, match="does not fit"):
        planned(one, memory_bytes=GIB)


def test_a_cut_model_is_what_the_worker_gets() -> None:
    one = subject(LOGITS)
    limit = int(0.8 * planned(one).theirs.predicted.peak_bytes)
    wanted = planned(one, memory_bytes=limit).layers
    seen: list[int] = []

    class Noting(Bench):
        def call(self, function: str, model: ModelSettings, work: UpdateWork, **_: Any) -> Any:
            seen.append(model.config["num_hidden_layers"])
            return Failed(why=CallFailure.ERROR, message="nothing")

    Noting(subject=one, options=options(memory_limit_bytes=limit)).run()
    assert seen == [wanted, wanted]


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        (None, "verl is not installed"),
        ("0.6.1", "verl 0.6.1 is installed, and known are 0.7.1"),
        ("0.8.0", "verl 0.8.0 is installed, and the job is read as one of 0.9.1"),
    ],
)
def test_without_the_jobs_verl_it_is_left_out(
    release: str | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "installed_version", lambda package: release)
    with pytest.raises(NotHereError, match=reason):
        part.plan(subject(LOGITS), options())


def test_without_flash_attn_it_needs_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "find_spec", lambda name: None)
    with pytest.raises(NotHereError, match="flash_attn is not installed"):
        part.plan(subject(LOGITS), options())
    assert len(part.plan(subject(LOGITS), options("cpu"))) == 2


@pytest.mark.parametrize(
    ("overrides", "model", "reason"),
    [
        (("actor_rollout_ref.model.lora_rank=8",), "Qwen2.5-1.5B", "adapters"),
        (("actor_rollout_ref.model.use_remove_padding=False",), "Qwen2.5-1.5B", "padding"),
        ((), "Qwen2.5-VL-3B-Instruct", "images are not handed"),
    ],
)
def test_jobs_whose_update_is_not_run(overrides: tuple[str, ...], model: str, reason: str) -> None:
    with pytest.raises(NotHereError, match=reason):
        part.plan(subject(*overrides, model=model), options())


def test_on_a_cpu_fsdp1_is_run_as_fsdp2_and_nothing_is_timed() -> None:
    one = subject(LOGITS, "actor_rollout_ref.actor.strategy=fsdp")
    found = planned(one, device="cpu")
    assert found.theirs.settings.engine.backend is Backend.FSDP2
    assert "FSDP2" in found.notes[0]
    assert found.theirs.case.tokens < 100
    assert not found.theirs.settings.head.compiled


def test_on_a_cpu_no_sequence_is_shared() -> None:
    found = planned(subject(LOGITS, FSDP2, SHARED), device="cpu", processes=2)
    assert found.theirs.settings.engine.parallel.ulysses == 1
    assert "without Ulysses" in found.notes[0]
    assert planned(subject(LOGITS, FSDP2), device="cpu").notes == ()
    assert planned(subject(LOGITS, SHARED), processes=2).theirs.settings.engine.parallel.ulysses == 2


def test_the_releases_are_ones_that_our_patches_know() -> None:
    from tuner.inside_verl.patching import RELEASES as PATCHED

    assert set(RELEASES) <= set(PATCHED)


def test_a_share_of_the_advantages_is_zero() -> None:
    from tuner.validate.verl_update.worker.batch import without_advantage

    values = torch.randn(64, generator=torch.Generator().manual_seed(5))
    for share in SHARES:
        left = without_advantage(values, share)
        assert int((left == 0).sum()) == round(share * 64)
        assert torch.equal(left[left != 0], values[left != 0])


@pytest.mark.parametrize(("ours", "head"), [(False, "off"), (True, "recompute")])
def test_what_a_job_puts_into_verl_is_put_aside(
    ours: bool, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tuner.validate.verl_update.worker import measure, updates

    put_aside = ("TUNER_SKIP_ZERO_ADVANTAGE", "TUNER_RECORD", "VERL_USE_EXTERNAL_MODULES")
    for name in (*put_aside, "TUNER_HEAD", "TRITON_INTERPRET"):
        monkeypatch.setenv(name, "saved")
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(updates, "run", lambda model, work, device: seen.append(dict(os.environ)))
    work = UpdateWork(settings=planning.settings(planned(subject(LOGITS)).theirs), ours=ours, updates=())
    measure.measure(ModelSettings(config={}), work, device="cpu")
    (environment,) = seen
    assert environment["TUNER_HEAD"] == head
    assert not environment.keys() & set(put_aside)


def test_a_setting_that_a_release_lacks_must_be_off() -> None:
    from tuner.validate.training.worker.verl_build import DEFERS, _of_release

    @dataclass
    class OfAnOldRelease:
        strategy: str

    assert _of_release(OfAnOldRelease, strategy="fsdp2", qat=False, **{DEFERS: True}).strategy == "fsdp2"
    with pytest.raises(ValueError, match="has no entropy_checkpointing"):
        _of_release(OfAnOldRelease, strategy="fsdp2", entropy_checkpointing=True)


# verl's own worker

RELEASES_FOLDER = os.environ.get("VERL_RELEASES")
SITE = """
import importlib.util, sys

from measure.verl_engine.permissive import Permissive

Permissive.names = tuple(name for name in {without!r} if importlib.util.find_spec(name) is None)
sys.meta_path.append(Permissive())
"""
WITHOUT = (
    *("accelerate", "cachetools", "codetiming", "datasets", "dill", "fastapi", "liger_kernel", "pandas"),
    *("psutil", "pyarrow", "pylatexenc", "ray", "torchdata", "uvicorn", "wandb"),
)
NEEDED = ("tensordict", "peft")
TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 48,
    "vocab_size": 128,
}


def sources() -> list[Path]:
    """The folders that hold a release whose worker is run."""
    versions = Path(RELEASES_FOLDER or os.devnull).glob("*/verl/version/version")
    return sorted(path.parents[2] for path in versions if path.read_text().strip() in RELEASES)


def command(source: Path, folder: Path, *arguments: str) -> dict[str, Any]:
    """The JSON report of the part by the command, with stand-ins for what verl imports and does not use."""
    (folder / "sitecustomize.py").write_text(SITE.format(without=WITHOUT), encoding="utf-8")
    config = {**find_config("Qwen2.5-1.5B").values, **TINY}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    release = (source / "verl/version/version").read_text().strip()
    paths = (str(folder), str(ROOT), str(ROOT / "tests"), str(source), os.environ.get("PYTHONPATH", ""))
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "tuner", "validate", str(ROOT / "tests/cli/configs/grpo.yaml")),
            *("--verl-version", release, "--gpu", "h200-sxm", "--model", str(folder), "--device", "cpu"),
            *("--parts", "verl-update", "--budget", "600s", "-f", "json", *arguments),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout
    report: dict[str, Any] = json.loads(ran.stdout)
    jsonschema.validate(report, schema("validation"), cls=jsonschema.Draft202012Validator)
    return report


@pytest.mark.slow
@pytest.mark.skipif(RELEASES_FOLDER is None, reason="VERL_RELEASES names no folder with releases of verl")
@pytest.mark.skipif(not all(map(find_spec, NEEDED)), reason=f"verl's engine needs {', '.join(NEEDED)}")
@pytest.mark.parametrize("source", sources(), ids=lambda path: path.name)
@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_command_runs_updates_of_verls_own_worker(source: Path, processes: str, tmp_path: Path) -> None:
    report = command(source, tmp_path, "--nproc", processes)
    (found,) = report["validation"]["parts"]
    assert (found["part"], found["status"]) == ("verl-update", "done"), found
    figures = {measurement["name"]: measurement for measurement in found["measurements"]}
    assert set(figures) == {
        *(f"verl_update.tuner_head.{name}" for name in ("log_probs", "loss", "grad_norm")),
        *(f"verl_update.skip_{share}.grad_norm" for share in (0, 50, 75)),
    }
    for figure in figures.values():
        assert figure["low"] <= figure["measured"] <= figure["high"], figure
    left_out = [
        figures[f"verl_update.skip_{share}.grad_norm"]["details"]["left_out"] for share in (0, 50, 75)
    ]
    assert left_out == [0.0, 0.5, 0.75]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_peaks_and_results_on_a_gpu_are_as_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # what is installed is asked for
    release = installed_version("verl")
    if release not in RELEASES or find_spec("flash_attn") is None:
        pytest.skip(f"verl {release} is installed; the part needs one of {RELEASES}, and flash_attn")

    class OnAGpu(Bench):
        def call(self, function: Any, model: ModelSettings, work: UpdateWork, **_: Any) -> Any:
            return processes.run(
                function, (model, work), setup=Setup(device="cuda"), timeout_s=600.0, world=1
            )

    one = subject(LOGITS, "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192")
    if one.workload.release.version != release:
        pytest.skip(f"verl {release} is installed, and this job is one of {one.workload.release.version}")
    bench = OnAGpu(subject=one).run()
    claims = {name: outcome for name, outcome in bench.outcomes.items() if not name.endswith(".seconds")}
    assert claims, bench.notes
    assert set(claims.values()) <= {Outcome.CONFIRMED, None}, bench.measurements
