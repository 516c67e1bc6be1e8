"""The head whose vocabulary ranks share: what they find together is what one finds that has all of it."""

import os
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from filelock import FileLock
from torch import Tensor

from tests.interpreted import INTERPRETS, TRITON
from tests.kernels import ranks
from tests.kernels.exact import IGNORED, Case, error, exact_d_logits, exact_outputs, random_case
from tests.kernels.ranks import Run
from tests.kernels.test_head import GRADIENT_LIMITS, OUTPUT_LIMIT
from tuner.kernels import Mode, linear_cross_entropy, ops, tiles
from tuner.kernels.benchmark.heads import EXACT_LIMITS
from tuner.kernels.tiles import Path

SAVED = {"mode": Mode.SAVED_LOGITS}
PATHS = [Path.PORTABLE, Path.REFERENCE] if TRITON else [Path.REFERENCE]


def runs_of(path: Path) -> dict[str, Run]:
    """Runs to compare by name: on two ranks, but those whose name says otherwise."""
    half = torch.float16
    runs = {
        # A label beyond the first shard lies in its last tile, too.
        "uneven": Run(shards=(33, 37), path=path),
        "half": Run(shards=(40, 40), path=path, dtype=half),
        "saved": Run(shards=(33, 37), path=path, changes=SAVED),
        "saved half": Run(shards=(37, 33), path=path, dtype=half, changes={**SAVED, "slice_width": 16}),
        "three": Run(shards=(64, 5, 1), path=path),
        "three saved": Run(shards=(1, 5, 64), path=path, changes=SAVED),
        "near -150": Run(shards=(33, 37), path=path, offsets=(-150, -150)),
        "far apart": Run(shards=(33, 37), path=path, offsets=(-150, 300)),
        "all ignored": Run(shards=(33, 37), path=path, all_ignored=True),
        "no gradients": Run(shards=(33, 37), path=path, upstream="none"),
    }
    if path is Path.REFERENCE:
        runs |= {
            "sum": Run(shards=(33, 37), path=path, changes={"reduction": "sum"}),
            "mean": Run(shards=(33, 37), path=path, changes={"reduction": "mean"}),
            "compiled": Run(shards=(33, 37), path=path, compiled=True),
            "compiled saved": Run(shards=(33, 37), path=path, compiled=True, changes=SAVED),
        }
    runs["left in parts"] = Run(shards=(33, 37), path=path, changes={"sum_hidden_gradient": False})
    runs["other upstream"] = Run(shards=(33, 37), path=path, upstream="of a rank")
    return runs


RUNS = {f"{name}, {path.value}": run for path in PATHS for name, run in runs_of(path).items()}

Outcomes = list[dict[str, Any]]  # of each rank, by the name of a run


def start(
    folder: FilePath, world: int, runs: dict[str, Run], environment: dict[str, str], *, method: str
) -> Outcomes:
    """Have the ranks compute in processes of their own.

    ``method`` "forkserver" imports torch once for all ranks, in the environment of the first that are started
    so; "spawn" does for each.
    """
    torch.multiprocessing.set_forkserver_preload([ranks.__name__])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        torch.multiprocessing.start_processes(
            ranks.work, (world, str(folder), runs), nprocs=world, start_method=method
        )
    return left_in(folder, world)


def left_in(folder: FilePath, world: int) -> Outcomes:
    """What the ranks left in a folder."""
    return [torch.load(folder / f"{rank}.pt") for rank in range(world)]


def _runs_here(run: Run) -> bool:
    return INTERPRETS or run.path is Path.REFERENCE


def _parameters() -> list[Any]:
    """The names of all runs; the ranks are processes on CPUs, where Triton's interpreter runs the kernels."""
    no_interpreter = pytest.mark.skip(reason="up to 3.6 Triton's interpreter fails with numpy 2.4 and later")
    return [pytest.param(name, marks=() if _runs_here(run) else no_interpreter) for name, run in RUNS.items()]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Outcomes]:
    """The results of two and of three ranks, which are processes of this machine, for the cases of today.

    The first process of the tests that asks for them has them computed, the others read what it leaves.
    """
    tests = [item for item in request.session.items if isinstance(item, pytest.Function)]
    asked = {test.callspec.params.get("name") for test in tests if hasattr(test, "callspec")}
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # one folder of all processes
    with FileLock(shared / "ranks.lock"):
        return {world: of_world(shared / f"ranks-{world}", world, asked) for world in (2, 3)}


def of_world(folder: FilePath, world: int, asked: set[Any]) -> Outcomes:
    """What the ranks left in a folder, which they fill where it is not there.

    Two ranks have refusals to tell as well; three start only for runs that are asked.
    """
    runs = {
        name: run
        for name, run in RUNS.items()
        if name in asked and len(run.shards) == world and _runs_here(run)
    }
    if not runs and world != 2:
        return []
    if not folder.exists():
        folder.mkdir()
        environment = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        if INTERPRETS:
            environment["TRITON_INTERPRET"] = "1"
        start(folder, world, runs, environment, method="forkserver")
    return left_in(folder, world)


def exact_results(run: Run, case: Case) -> dict[str, Tensor]:
    """In float64, from the whole weight; each rank's gradients into its own shard."""
    hidden, weight = case.hidden.double(), case.weight.double()
    logits = hidden @ weight.T
    log_probs, entropy = exact_outputs(logits, case.labels, case.temperature)
    active = max(1, int((case.labels != IGNORED).sum()))
    reduction = run.changes.get("reduction", "none")
    if reduction != "none":
        share = 1.0 if reduction == "sum" else 1 / active
        log_probs = log_probs.sum() * share
        case = Case(**{**vars(case), "d_log_probs": torch.full_like(case.d_log_probs, share)})
    parts = []
    for rank in range(len(run.shards)):
        d_log_probs, d_entropy = ranks.upstream(run, case, rank)
        of_rank = Case(**{**vars(case), "d_log_probs": d_log_probs, "d_entropy": d_entropy})
        parts.append(exact_d_logits(logits, of_rank).split(run.shards, 1)[rank])
    d_logits = torch.cat(parts, 1)
    return {
        "log_probs": log_probs,
        "entropy": entropy,
        "d_hidden": d_logits @ weight,
        "d_weight": d_logits.T @ hidden,
    }


def test_runs_are_of_two_and_three_ranks() -> None:
    assert {len(run.shards) for run in RUNS.values()} == {2, 3}


@pytest.mark.sampled(24)
@pytest.mark.slow
@pytest.mark.parametrize("name", _parameters())
def test_ranks_find_what_the_whole_vocabulary_has(name: str, outcomes: dict[int, Outcomes]) -> None:
    run = RUNS[name]
    of_ranks = [outcome[name] for outcome in outcomes[len(run.shards)]]
    case = Case(**of_ranks[0]["case"])
    parts = [of_rank["results"][0] for of_rank in of_ranks]
    together = {
        **parts[0],
        "d_hidden": sum(part["d_hidden"] for part in parts)
        if "sum_hidden_gradient" in run.changes
        else parts[0]["d_hidden"],
        "d_weight": torch.cat([part["d_weight"] for part in parts]),
    }
    limit = GRADIENT_LIMITS[run.dtype]
    limits = {"log_probs": OUTPUT_LIMIT, "entropy": OUTPUT_LIMIT, "d_hidden": limit, "d_weight": limit}
    exact, whole = exact_results(run, case), of_ranks[0]["whole"]
    if run.offsets:  # float32 keeps a logit of 300 to 1.5e-5: as good as without a group, another sum aside
        limits = {key: max(value, 2 * error(whole[key], exact[key])) for key, value in limits.items()}
    if run.dtype is not torch.float32 and "mode" in run.changes:  # of the logits as they are kept
        exact = {key: value.double() for key, value in whole.items()}
    errors = {key: error(value, exact[key]) for key, value in together.items()}
    assert {key: value for key, value in errors.items() if not value <= limits[key]} == {}
    ignored = case.labels == IGNORED
    assert not together["entropy"][ignored].any() and not together["d_hidden"][ignored].any()
    assert together["entropy"].min() >= 0


@pytest.mark.sampled(12)
@pytest.mark.slow
@pytest.mark.parametrize("name", _parameters())
def test_bits_are_the_same_on_all_ranks_and_twice(name: str, outcomes: dict[int, Outcomes]) -> None:
    run = RUNS[name]
    of_ranks = [outcome[name]["results"] for outcome in outcomes[len(run.shards)]]
    for first, second in of_ranks:
        assert all(torch.equal(value, second[key]) for key, value in first.items())
    shared = ("log_probs", "entropy") + (() if "sum_hidden_gradient" in run.changes else ("d_hidden",))
    for first, _ in of_ranks[1:]:
        assert all(torch.equal(first[key], of_ranks[0][0][key]) for key in shared)


@pytest.mark.sampled(4)
@pytest.mark.slow
def test_one_wrong_rank_is_an_error_on_all(outcomes: dict[int, Outcomes]) -> None:
    said = outcomes[2][0]["refusals"]
    assert said == outcomes[2][1]["refusals"]
    assert said.pop("nothing") == ""
    expected = {
        "label": "labels must be in [0, 7) or -100, which is ignored, not 7",
        "negative label": "labels must be in [0, 7) or -100, which is ignored, not -1",
        "temperature": "temperature must be finite",
        "other labels": "labels and temperature must be the same on all ranks of process_group",
        "other ignored": "labels and temperature must be the same on all ranks of process_group",
        "other temperature": "labels and temperature must be the same on all ranks of process_group",
        "more rows": "hidden must be of one shape on all ranks of process_group, not [(2, 4), (3, 4)]",
        "no rows": "hidden must be of one shape on all ranks of process_group, not [(0, 4), (2, 4)]",
    }
    assert said.keys() == expected.keys()
    assert {name: text for name, text in said.items() if not text.startswith(expected[name])} == {}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dist.ProcessGroup]:
    """A group of this process."""
    store = tmp_path_factory.mktemp("alone") / "store"
    dist.init_process_group("gloo", init_method=store.as_uri(), rank=0, world_size=1)
    group = dist.group.WORLD
    assert group is not None
    yield group
    dist.destroy_process_group()


@pytest.mark.skipif(torch.cuda.is_available(), reason="its group is of CPU tensors")
@pytest.mark.parametrize("mode", Mode, ids=str)
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_group_of_one_is_no_group(path: Path, mode: Mode, alone: dist.ProcessGroup) -> None:
    case = random_case(21, 16, 70, torch.float16)
    inputs = (case.hidden, case.weight, case.labels)
    upstream = (case.d_log_probs, case.d_entropy)
    with tiles.only(path):
        results = []
        for group in (None, alone):
            outputs = linear_cross_entropy(*inputs, case.temperature, process_group=group, mode=mode)
            results.append([*outputs, *torch.autograd.grad(outputs, inputs[:2], upstream)])
        # What several ranks do, too.
        for name in ("", str(alone.group_name)):
            arguments = (
                *inputs,
                1 / case.temperature,
                IGNORED,
                mode is Mode.SAVED_LOGITS,
                0,
                name,
                True,
            )
            outputs = ops.forward(*arguments)[:2]
            results.append([*outputs, *torch.autograd.grad(outputs, inputs[:2], upstream)])
    for other in results[1:]:
        assert all(torch.equal(left, right) for left, right in zip(results[0], other, strict=True))


@pytest.mark.skipif(torch.cuda.is_available(), reason="its group is of CPU tensors")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch's tracers
def test_opcheck_with_a_group(alone: dist.ProcessGroup) -> None:
    case = random_case(6, 8, 33, torch.float32)
    rest = (IGNORED, False, 0, str(alone.group_name), True)
    torch.library.opcheck(ops.forward, (case.hidden, case.weight, case.labels, case.temperature, *rest))


def test_what_is_no_group_is_refused() -> None:
    row = torch.ones(1, 4)
    with pytest.raises(ValueError, match=r"^process_group must be a group of which this rank is part"):
        linear_cross_entropy(
            row,
            row,
            torch.zeros(1, dtype=torch.int64),
            process_group=dist.GroupMember.NON_GROUP_MEMBER,  # type: ignore[arg-type]
        )


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_two_gpus(tmp_path: FilePath) -> None:
    sizes = {"path": None, "tokens": 2000, "hidden": 1024, "dtype": torch.bfloat16}
    runs = {
        "even": Run(shards=(25344, 25344), **sizes),
        "uneven": Run(shards=(25001, 25256), **sizes),
        "saved": Run(shards=(25001, 25256), **sizes, changes=SAVED),
        "compiled": Run(shards=(25344, 25344), **sizes, compiled=True),
    }
    environment = {"CUBLAS_WORKSPACE_CONFIG": os.environ.get("CUBLAS_WORKSPACE_CONFIG", ":4096:8")}
    outcomes = start(tmp_path, 2, runs, environment, method="spawn")
    for name, run in runs.items():
        parts = [outcome[name]["results"][0] for outcome in outcomes]
        together = {**parts[0], "d_weight": torch.cat([part["d_weight"] for part in parts])}
        whole = outcomes[0][name]["whole"]
        if name == "saved":  # of the logits as they are kept; both gradients are rounded
            exact = whole
            limits = {key: limit * (2 if key.startswith("d_") else 1) for key, limit in EXACT_LIMITS.items()}
        else:
            case = Case(**{key: value.cuda() for key, value in outcomes[0][name]["case"].items()})
            exact, limits = exact_results(run, case), EXACT_LIMITS
        errors = {key: error(value.cuda(), exact[key].cuda().double()) for key, value in together.items()}
        assert {key: value for key, value in errors.items() if not value <= limits[key]} == {}, name
        for first, second in (outcome[name]["results"] for outcome in outcomes):
            assert all(torch.equal(value, second[key]) for key, value in first.items()), name
        for key in ("log_probs", "entropy", "d_hidden"):
            assert torch.equal(parts[0][key], parts[1][key]), (name, key)
    assert outcomes[0]["refusals"] == outcomes[1]["refusals"]
