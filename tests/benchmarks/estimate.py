"""How long one estimate takes in process; run it by hand, on a quiet machine.

    python tests/benchmarks/estimate.py [LAUNCHES.jsonl] [--repeats N] [--json]

Times ``memory.estimate`` and ``timing.step_time`` with its interval, with nothing remembered from earlier
calls, on recorded launches, or on generated workloads where no file is given; then the seconds of each job
again where only its training passes have changed, and those of conversations that crowd an engine: the
processor's seconds, in which the turns of other processes do not count. Prints no time when an estimate is
wrong: that of a known job must equal the closed form of the documentation, and repeated ones must be equal.
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
from functools import _lru_cache_wrapper, partial
from pathlib import Path

from msgspec.structs import replace

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.loading import load  # noqa: E402
from tests.memory.test_closed_form import QWEN, closed_form, plain  # noqa: E402
from tests.rules.generate import workloads  # noqa: E402
from tests.workloads import grpo_7b  # noqa: E402
from tuner import memory  # noqa: E402
from tuner.errors import TunerError  # noqa: E402
from tuner.gpus import find_gpu  # noqa: E402
from tuner.hardware import Cluster  # noqa: E402
from tuner.model_shape import ModelShape  # noqa: E402
from tuner.models import find_model  # noqa: E402
from tuner.timing import Interval, step_interval, step_time  # noqa: E402
from tuner.workload import Controller, Conversation, Lengths, Phase, Workload  # noqa: E402

# What is timed, and what each claims to take at most.
CLAIMS_S = {"memory": 5e-3, "seconds": 20e-3, "seconds, training changed": 1e-3, "conversations": 20e-3}
STAND_IN = "qwen2.5-7b"  # for a model that is not bundled
GENERATED = 400
HELD = 200  # sequences that the cache of an engine holds
CROWDED = 40  # the same of an engine with conversations


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
            named = loaded.model_path()
            critic = loaded.critic_model_path()
            per_node, nodes = loaded.cluster_size()
            yield loaded.workload(
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
    """What empties every cache of the models, so that a time is that of a first call.

    The texts of formulas stay, which no workload changes: they are written once in a process.
    """
    modules = [
        module for name, module in sys.modules.items() if name.startswith(("tuner.memory", "tuner.timing"))
    ]
    found = {
        id(value): value.cache_clear
        for module in modules
        for value in vars(module).values()
        if isinstance(value, _lru_cache_wrapper) and not value.__module__.startswith("tuner.memory.ledger")
    }
    return list(found.values())


def clocked(make: Callable[[], object], prepare: Callable[[], None], repeats: int) -> float:
    """The median of some calls, which must all say the same."""
    taken, answers = [], []
    for _ in range(repeats):
        prepare()
        begin = time.process_time()
        answer = make()
        taken.append(time.process_time() - begin)
        answers.append(answer)
    if any(answer != answers[0] for answer in answers):
        raise SystemExit("one workload has several estimates; no times are given")
    return statistics.median(taken)


def peak(workload: Workload) -> tuple[Phase, int, int]:
    """What the memory model says."""
    estimate = memory.estimate(workload)
    return estimate.worst.phase, estimate.worst.peak_bytes, estimate.host_bytes


def timed(workload: Workload, held: int = HELD) -> Interval:
    """What the time model says, of an engine that holds so many sequences at once."""
    return step_interval(step_time(workload, concurrent_sequences=held), workload.cluster)


def with_other_training(workload: Workload) -> Workload:
    """The same job with other batches and weights elsewhere in its training passes."""
    actor = workload.actor
    update = replace(actor.update, batching=replace(actor.update.batching, token_budget=12_345))
    engine = replace(actor.engine, param_offload=not actor.engine.param_offload)
    return replace(workload, actor=replace(actor, update=update, engine=engine))


def conversations() -> Iterator[Workload]:
    """Many sequences of several turns, in an engine that holds few of them."""
    for turns in (8, 16):
        for caching in (True, False):
            job = grpo_7b().with_rollout(max_sequences=256, prefix_caching=caching)
            lengths = Lengths(mean_prompt=200, mean_response=700, tool_seconds=20)
            talk = Conversation(turns=turns, most_turns=None, tool_tokens=0)
            yield replace(
                job.with_batch(prompts=512, lengths=lengths, conversation=talk),
                controller=Controller(agent_workers=8),
            )


def measured(jobs: list[Workload], repeats: int) -> dict[str, list[float]]:
    """Seconds of every job by what is timed, in order."""
    clears = caches()

    def forget() -> None:
        for clear in clears:
            clear()

    def remember(job: Workload) -> None:
        forget()
        timed(job)

    times = {
        "memory": [clocked(partial(peak, job), forget, repeats) for job in jobs],
        "seconds": [clocked(partial(timed, job), forget, repeats) for job in jobs],
        "seconds, training changed": [
            clocked(partial(timed, with_other_training(job)), partial(remember, job), repeats) for job in jobs
        ],
        "conversations": [clocked(partial(timed, job, CROWDED), forget, repeats) for job in conversations()],
    }
    return {name: sorted(seconds) for name, seconds in times.items()}


def main() -> None:
    """Time everything and print a line for each kind, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("launches", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    known()
    jobs = list(launched(options.launches)) if options.launches else list(workloads(GENERATED, seed=1))
    gc.disable()
    report = {
        "date": str(date.today()),
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "workloads": len(jobs),
        "of": str(options.launches or "generated"),
        "times": {
            name: {
                "median_ms": round(statistics.median(times) * 1e3, 3),
                "p95_ms": round(times[int(len(times) * 0.95)] * 1e3, 3),
                "worst_ms": round(times[-1] * 1e3, 3),
                "claim_ms": CLAIMS_S[name] * 1e3,
                "holds": times[-1] <= CLAIMS_S[name],
            }
            for name, times in measured(jobs, options.repeats).items()
        },
    }
    if options.json:
        print(json.dumps(report, indent=2))
        return
    print(f"{report['date']}, Python {report['python']}, {report['machine']}")
    print(f"{report['workloads']} workloads ({report['of']}), nothing remembered")
    for name, row in report["times"].items():
        print(
            f"{name}: median {row['median_ms']} ms, 95 % below {row['p95_ms']} ms, "
            f"worst {row['worst_ms']} ms; claimed: at most {row['claim_ms']:.0f} ms: "
            f"{'holds' if row['holds'] else 'DOES NOT HOLD'}"
        )


if __name__ == "__main__":
    main()
