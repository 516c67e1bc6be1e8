"""What ``nvidia-smi`` shows of the cards while a job runs, five times a second."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from msgspec import Struct

from tuner.units import MIB

EVERY_MS = 200
_BUSY = 0.05  # a share of the time that no card is said to be busy for without kernels
MEMORY, PROCESSES = "nvidia-smi.csv", "nvidia-smi-processes.csv"
_QUERIES = {
    MEMORY: "--query-gpu=timestamp,index,memory.used,utilization.gpu",
    PROCESSES: "--query-compute-apps=timestamp,pid,process_name,used_memory",
}


class Sample(Struct, frozen=True, kw_only=True):
    """One card at one moment."""

    at: float  # seconds since 1970
    card: int
    used_bytes: int
    busy: float  # share of the time before


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Write what ``nvidia-smi`` says into a folder meanwhile; nothing where there is none."""
    running, files = [], []
    for name, query in _QUERIES.items():
        stream = (folder / name).open("w")
        files.append(stream)
        words = ["nvidia-smi", query, "--format=csv,noheader,nounits", "-lms", str(EVERY_MS)]
        try:
            running.append(subprocess.Popen(words, stdout=stream, stderr=subprocess.DEVNULL))
        except FileNotFoundError:
            break
    try:
        yield
    finally:
        for process in running:
            process.terminate()
            process.wait()
        for stream in files:
            stream.close()


def samples(file: Path, utc_offset_s: float) -> list[Sample]:
    """What the cards held; lines that are cut or without a number are left out.

    Args:
        file: what ``nvidia-smi`` wrote, in the time of its machine.
        utc_offset_s: what that is ahead of UTC.
    """
    found = []
    for line in file.read_text().splitlines():
        fields = [field.strip() for field in line.split(",")]
        try:
            at, card, used, busy = fields
            found.append(
                Sample(
                    at=_seconds(at) - utc_offset_s,
                    card=int(card),
                    used_bytes=int(used) * MIB,
                    busy=float(busy) / 100,
                )
            )
        except ValueError:
            continue
    return found


def _seconds(stamp: str) -> float:
    """Seconds since 1970, if the stamp is in UTC."""
    return datetime.strptime(stamp, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=timezone.utc).timestamp()


def held_between(found: list[Sample], begin: float, end: float) -> dict[int, int]:
    """The most that each card held from a moment to another, in bytes."""
    most: dict[int, int] = {}
    for sample in found:
        if begin <= sample.at <= end:
            most[sample.card] = max(sample.used_bytes, most.get(sample.card, 0))
    return most


def busy_until(found: list[Sample], begin: float, end: float) -> dict[int, float]:
    """When each card was last seen to compute from a moment to another; the first one where it never was."""
    last = dict.fromkeys((sample.card for sample in found), begin)
    for sample in found:
        if begin <= sample.at <= end and sample.busy > _BUSY:
            last[sample.card] = max(sample.at, last[sample.card])
    return last
