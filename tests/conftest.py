"""How tests are run: on how many processes, which of the sampled ones today, and who has the GPU.

A folder of tests is shared among one process more than there are cores, since some wait for processes that
they start; a file or a test runs in this one; ``-n`` says otherwise. Tests marked ``sampled(n)`` are many
cases of one law: an n-th part of them runs, as ``--slice`` chooses, so that n numbers in a row run all of
them. The same number is hypothesis' seed.
"""

import gc
import hashlib
import os
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests import card

# Before any test imports torch: as many processes as cores have nothing to gain from further threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

MOST_PROCESSES = 8  # each imports torch and transformers
COLLECT_AFTER = 400_000  # objects, as the command line itself has it; what is imported is a million of them


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slice",
        default="0",
        help="which part of the sampled tests runs: a number, such as that of the day of the year, or 'all'",
    )


def pytest_configure(config: pytest.Config) -> None:
    _keep_bytecode_elsewhere(config)
    gc.set_threshold(COLLECT_AFTER)
    if config.pluginmanager.hasplugin("hypothesispytest"):  # not where only the kernels are tested
        from hypothesis import settings

        settings.register_profile("tests", deadline=None)  # processes share cores
        settings.load_profile("tests")


def _keep_bytecode_elsewhere(config: pytest.Config) -> None:
    """Where none may lie beside the sources, it lies with what pytest keeps: tests start a hundred processes.

    Without bytecode each of them compiles all that it imports, which for ``tuner advise`` takes longer than
    what it does, and with transformers ten seconds.
    """
    cache = getattr(config, "cache", None)  # a plugin's, which can be switched off
    if sys.dont_write_bytecode and cache is not None:
        sys.pycache_prefix = str(cache.mkdir("bytecode"))
        sys.dont_write_bytecode = False
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_report_header(config: pytest.Config) -> str:
    return f"sampled tests: --slice {config.getoption('--slice')}"


@pytest.hookimpl(tryfirst=True)  # before the plugin that starts the processes
def pytest_cmdline_main(config: pytest.Config) -> None:
    options = config.option
    if options.slice != "all" and getattr(options, "hypothesis_seed", "") is None:
        options.hypothesis_seed = options.slice
    if hasattr(config, "workerinput") or getattr(options, "numprocesses", 0) is not None:
        return  # one of the processes, no plugin to start them, or told how many
    folders = [argument for argument in config.args if Path(argument.split("::")[0]).is_dir()]
    if folders and not options.usepdb and not options.collectonly:
        options.numprocesses = min(_cores() + 1, MOST_PROCESSES)
        if options.dist == "no":
            options.dist = "worksteal"  # neighbours stay together: what a file computes once is computed once


def _cores() -> int:
    """Cores that this process may use, which can be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _skip_without_a_gpu([item for item in items if item.get_closest_marker("gpu")])
    number = config.getoption("--slice")
    if number == "all" or any("::" in argument for argument in config.args):
        return
    left_out = set(map(id, _left_out(items, int(number))))
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
    items[:] = [item for item in items if id(item) not in left_out]


def pytest_collection_finish() -> None:
    gc.freeze()  # modules and tests stay to the end: to look at them over and over takes a third of the time


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a file leaves behind, such as answers to be asked for again, stays to the end as well.

    Else every later collection looks at it: where a test asks for one, for a second and more by the end.
    """
    made, collections, _ = gc.get_count()
    if (nextitem is None or nextitem.path != item.path) and (made > COLLECT_AFTER // 4 or collections):
        gc.collect()
        gc.freeze()


def _skip_without_a_gpu(items: list[pytest.Item]) -> None:
    if items:
        import torch

        for item in () if torch.cuda.is_available() else items:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def _left_out(items: list[pytest.Item], number: int) -> list[pytest.Item]:
    """The sampled tests whose turn is another day, evenly over the cases of each test function."""
    functions: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None:
            functions[item.nodeid.split("[")[0], mark.args[0]].append(item)
    return [
        item
        for (function, parts), cases in functions.items()
        for place, item in enumerate(sorted(cases, key=_digest), start=_first_turn(function, cases))
        if place % parts != number % parts
    ]


def _digest(item: pytest.Item) -> bytes:
    """An order that mixes the values of all parameters, alike for the functions that share them."""
    return hashlib.sha256(_case(item).encode()).digest()


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is kept between runs is that of the tests alone, and leaves nothing in the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def plans_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that several formats show is made once."""
    from tests.cli.plans_kept import remembered  # few tests plan

    monkeypatch.setattr("tuner.consultation.planning.plan_answer", remembered)


def _case(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[2]


def _first_turn(function: str, cases: list[pytest.Item]) -> int:
    """Where the turns of a test function begin, so that those of a single case do not all fall on one day.

    The functions of a file that share their cases share the turns: what they ask of a case is computed once.
    """
    shared = function.split("::")[0] + "".join(sorted(map(_case, cases)))
    named = shared if len(cases) > 1 else function
    return int.from_bytes(hashlib.sha256(named.encode()).digest()[:4], "big")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if not item.get_closest_marker("gpu") or item.get_closest_marker("skip"):
        return (yield)
    with card.held(alone=True):
        return (yield)
