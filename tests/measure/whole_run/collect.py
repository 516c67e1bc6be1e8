"""Puts what a run left behind into one file, which is a record: ``tuner`` reads it as it reads a folder's."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from measure.whole_run.card import MEMORY, busy_until, held_between, samples
from measure.whole_run.plan import Plan

from tuner import __version__
from tuner.inputs.record.form import CONFIG, VERSION, CardPeak, RecordedConfiguration, RecordedRun
from tuner.inputs.record.read import RunRecord, read_record
from tuner.workload import Phase

_STEP = re.compile(r"step:(\d+) - (.*)")
_METRIC = re.compile(r"(\S+):(\S+)")


def write_file(folder: Path, file: Path) -> None:
    """Write the record of a run as one file.

    Args:
        folder: of the run, as :func:`run_job` left it.
        file: to write.
    """
    about = json.loads((folder / "about.json").read_text())
    record = read_record(folder / "record")
    yaml = (folder / "record" / CONFIG).read_text()
    head = [
        _encoded(line, about["folders"]) for line in (_run(about, folder), RecordedConfiguration(yaml=yaml))
    ]
    body = [
        line
        for part in sorted((folder / "record").glob("*.jsonl"))
        for line in part.read_bytes().splitlines()
    ]
    cards = [msgspec.json.encode(line) for line in card_peaks(record, folder / MEMORY, about["utc_offset_s"])]
    file.write_bytes(b"\n".join([*head, *body, *cards]) + b"\n")
    differing = _differing(record, folder / "log.txt")
    if differing:
        raise ValueError(f"the log has other seconds than the record: {differing}")


def _encoded(line: RecordedRun | RecordedConfiguration, folders: dict[str, str]) -> bytes:
    """A line without the paths of the machine that ran, which say nothing."""
    text = msgspec.json.encode(line).decode()
    for name, path in folders.items():
        text = text.replace(path, name)
    return text.encode()


def _run(about: dict[str, Any], folder: Path) -> RecordedRun:
    plan = about["plan"]
    lengths = ", ".join(f"{key} {value}" for key, value in plan["lengths"].items())
    prompts = ", ".join(f"{key} {value}" for key, value in plan["prompts"].items())
    return RecordedRun(
        version=VERSION,
        name=plan["name"],
        tuner=__version__,
        date=about["date"],
        cards=tuple(about["cards"]),
        software=about["software"],
        overrides=tuple(word for word in about["words"] if "=" in word),
        models=_models(about),
        notes=(
            plan["what"],
            f"Tokens of a response are drawn from a log-normal spread: {lengths}.",
            f"Words of a prompt are drawn evenly: {prompts}.",
            f"From the start to the end {about['ended'] - about['begun']:.0f} s; first step begun after "
            f"{_first_step(folder) - about['begun']:.0f} s.",
            *about.get("notes", ()),  # written by hand, where something happened to a run
        ),
    )


def _models(about: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The model that was run, by its path, where it is a part of a bundled one."""
    plan = msgspec.convert(about["plan"], Plan)
    if plan.layers is None:
        return {}
    return {f"{about['folders']['/materials']}/{plan.config.name}": dict(plan.config.values)}


def _first_step(folder: Path) -> float:
    """When the first phase of the first step began, in seconds since 1970."""
    record = read_record(folder / "record")
    return min(line.begun for worker in record.workers for line in worker.phases if line.step > 0)


def card_peaks(record: RunRecord, file: Path, utc_offset_s: float) -> Iterator[CardPeak]:
    """What the cards held at most in each phase of each step.

    Generation runs in no process that records: it is what lies between the weights of the step before and the
    first phase of a step.
    """
    found = samples(file, utc_offset_s)
    for step, phase, begin, end in windows(record):
        held, busy = held_between(found, begin, end), busy_until(found, begin, end)
        if held:
            yield CardPeak(
                step=step,
                phase=phase,
                used_bytes=tuple(held[card] for card in sorted(held)),
                busy_seconds=tuple(round(busy[card] - begin, 1) for card in sorted(held)),
            )


def windows(record: RunRecord) -> list[tuple[int, Phase, float, float]]:
    """Each phase of each step with its begin and its end, from the first rank to the last."""
    spans: dict[tuple[int, Phase], list[tuple[float, float]]] = defaultdict(list)
    for worker in record.workers:
        for line in worker.phases:
            if line.failed is None:
                spans[line.step, line.phase].append((line.begun, line.begun + line.seconds))
    ends = {key: (min(b for b, _e in pairs), max(e for _b, e in pairs)) for key, pairs in spans.items()}
    rows = [(step, phase, *ends[step, phase]) for step, phase in ends]
    for step in sorted({step for step, _phase in ends if step > 0}):
        before = ends.get((step - 1, Phase.UPDATE_WEIGHTS))
        begun = min(begin for (one, _phase), (begin, _end) in ends.items() if one == step)
        if before is not None and before[1] < begun:
            rows.append((step, Phase.ROLLOUT, before[1], begun))
    return sorted(rows, key=lambda row: row[2])


def logged_seconds(log: Path) -> dict[int, dict[str, float]]:
    """``timing_s/*`` of each step, as verl's console prints it."""
    steps: dict[int, dict[str, float]] = {}
    for line in log.read_text(errors="replace").splitlines():
        found = _STEP.search(line)
        if found is not None:
            metrics = dict(_METRIC.findall(found[2]))
            steps[int(found[1])] = {
                name: float(value) for name, value in metrics.items() if name.startswith("timing_s/")
            }
    return steps


def _differing(record: RunRecord, log: Path) -> list[str]:
    """Timers that the log and the record of the trainer's process do not agree on."""
    recorded = {step.step: step.values for step in record.steps}
    return [
        f"step {step}, {name}: {seconds} and {recorded.get(step, {}).get(name)}"
        for step, timers in logged_seconds(log).items()
        for name, seconds in timers.items()
        if abs(recorded.get(step, {}).get(name, -1.0) - seconds) > 1e-6 * max(1.0, seconds)
    ]
