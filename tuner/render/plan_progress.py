"""How far a search is, on one line of a terminal; elsewhere nothing is said until the answer is there."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from tuner.language import _
from tuner.render.columns import columns, left
from tuner.render.plan_why import constraint_words
from tuner.render.words import listed
from tuner.rules.wording import count, duration

if TYPE_CHECKING:
    from tuner.consultation.planned_clusters import Watch
    from tuner.hardware import Cluster
    from tuner.plan.search import SearchProgress

_EVERY_S = 0.2
_WIDTH = 100  # columns; a line that is longer is cut
_TOLD = 3  # constraints


@contextmanager
def progress_on(stream: TextIO) -> "Iterator[Watch | None]":
    """What shows the progress while the body runs, and takes it away afterwards."""
    if not stream.isatty():
        yield None
        return
    last = 0.0

    def watch(cluster: "Cluster", progress: "SearchProgress") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _EVERY_S:
            last = now
            line = progress_line(cluster, progress)
            while columns(line) > _WIDTH:
                line = line[:-1]
            stream.write(f"\r{left(line, _WIDTH)}")
            stream.flush()

    try:
        yield watch
    finally:
        stream.write(f"\r{'':{_WIDTH}}\r")
        stream.flush()


def progress_line(cluster: "Cluster", progress: "SearchProgress") -> str:
    """The cluster, the settings so far, what most of them failed, and the best step."""
    most = sorted(progress.rejected.items(), key=lambda item: -item[1])[:_TOLD]
    failed = listed(f"{constraint_words(name)} {count(number)}" for name, number in most)
    best = (
        _("none fits yet")
        if progress.best_s is None
        else _("best {seconds} s").format(seconds=duration(progress.best_s))
    )
    return _("{gpus} x {gpu}: {settings} settings; {best}; failed: {failed}").format(
        gpus=cluster.gpus,
        gpu=cluster.gpu.name,
        settings=count(progress.looked_at),
        best=best,
        failed=failed or "-",
    )
