"""How long one estimate takes in process; run it by hand, on a quiet machine.

    python tests/benchmarks/estimate.py [LAUNCHES.jsonl] [--repeats N] [--json]

Times ``memory.estimate`` with nothing remembered from earlier calls, on recorded launches, or on
generated workloads where no file is given: the processor's seconds, in which the turns of other
processes do not count. Prints no time when an estimate is wrong: that of a known
job must equal the closed form of the documentation, and repeated ones must be equal.
"""

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import _lru_cache_wrapper
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.loading import load  # noqa: E402
from tests.memory.test_closed_form import QWEN, closed_form, plain  # noqa: E402
from tests.rules.generate import workloads  # noqa: E402
from tuner import memory  # noqa: E402
from tuner.errors import TunerError  # noqa: E402
from tuner.gpus import find_gpu  # noqa: E402
from tuner.hardware import Cluster  # noqa: E402
from tuner.model_shape import ModelShape  # noqa: E402
from tuner.models import find_model  # noqa: E402
from tuner.trainers import verl  # noqa: E402
from tuner.workload import Phase, Workload  # noqa: E402

CLAIM_S = 5e-3
STAND_IN = "qwen2.5-7b"  # for a model that is not bundled
GENERATED = 400


def known() -> None:
    """The estimate of a known job, by hand."""
    tokens = 4096
    always, moments = closed_form(QWEN, tokens)
    found = memory.estimate(plain(QWEN, tokens)).phase(Phase.UPDATE_ACTOR)
    if found is None or found.peak_bytes != always + max(moments):
        raise SystemExit("the estimate of a known job is wrong; no times are given")


def launched(path: Path) -> Iterator[Workload]:
    """The workloads of recorded launches; launches that are no training job are left out."""
    for line in path.read_text().splitlines():
        record = json.loads(line)
        try:
            loaded = load(None, record["overrides"], version=record["tags"][0].removeprefix("v"))
            named = verl.model_path(loaded.settings)
            critic = verl.critic_model_path(loaded.settings)
            per_node, nodes = verl.cluster_size(loaded.settings)
            yield verl.read(
                loaded.settings,
                version=loaded.version,
                model=_model(named),
                critic_model=_model(critic) if critic else None,
                cluster=Cluster(
                    gpu=find_gpu("h100-sxm"), gpus_per_node=per_node, nodes=nodes, network_bytes_per_s=5e10
                ),
            )
        except TunerError:
            continue


def _model(named: str | None) -> ModelShape:
    try:
        return find_model(named or STAND_IN)
    except TunerError:
        return find_model(STAND_IN)


def caches() -> list[Callable[[], None]]:
    """What empties every cache of the memory model, so that a time is that of a first call.

    The texts of formulas stay, which no workload changes: they are written once in a process.
    """
    modules = [module for name, module in sys.modules.items() if name.startswith("tuner.memory")]
    found = {
        id(value): value.cache_clear
        for module in modules
        for value in vars(module).values()
        if isinstance(value, _lru_cache_wrapper) and not value.__module__.startswith("tuner.memory.ledger")
    }
    return list(found.values())


def seconds(workload: Workload, clears: list[Callable[[], None]], repeats: int) -> float:
    """The median of first calls."""
    taken, answers = [], set()
    for _ in range(repeats):
        for clear in clears:
            clear()
        begin = time.process_time()
        estimate = memory.estimate(workload)
        taken.append(time.process_time() - begin)
        answers.add((estimate.worst.phase, estimate.worst.peak_bytes, estimate.host_bytes))
    if len(answers) != 1:
        raise SystemExit("one workload has several estimates; no times are given")
    return statistics.median(taken)


def main() -> None:
    """Time everything and print one line, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("launches", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    known()
    jobs = list(launched(options.launches)) if options.launches else list(workloads(GENERATED, seed=1))
    clears = caches()
    gc.disable()
    times = sorted(seconds(job, clears, options.repeats) for job in jobs)
    report = {
        "date": str(date.today()),
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "workloads": len(times),
        "of": str(options.launches or "generated"),
        "median_ms": round(statistics.median(times) * 1e3, 3),
        "p95_ms": round(times[int(len(times) * 0.95)] * 1e3, 3),
        "worst_ms": round(times[-1] * 1e3, 3),
        "claim_ms": CLAIM_S * 1e3,
        "holds": times[-1] <= CLAIM_S,
    }
    if options.json:
        print(json.dumps(report, indent=2))
        return
    print(f"{report['date']}, Python {report['python']}, {report['machine']}")
    print(f"{report['workloads']} workloads ({report['of']}), nothing remembered")
    print(f"median {report['median_ms']} ms, 95 % below {report['p95_ms']} ms, worst {report['worst_ms']} ms")
    print(f"claimed: at most {report['claim_ms']:.0f} ms: {'holds' if report['holds'] else 'DOES NOT HOLD'}")


if __name__ == "__main__":
    main()
