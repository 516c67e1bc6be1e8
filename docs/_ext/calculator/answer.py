"""The answer to what the form says at first, as the page shows it where no script runs."""

from collections.abc import Mapping
from functools import cache
from html import escape

from calculator import form, javascript, questions, samples
from calculator.reading import read
from kept_answers import cached_answer
from tuner.memory import Estimate, PhaseEstimate, estimate, rollout_memory
from tuner.render.bars import PARTS
from tuner.render.numbers import exact, gib, gib_interval
from tuner.render.picture import colour

Words = Mapping[str, str]


@cache
def traced() -> questions.Traced:
    """The memory model as expressions, traced once, and compared with itself on some answers."""
    found = questions.ask()
    samples.expect_equal(found)
    return found


@cached_answer(words=False)
def _written() -> tuple[tuple[str, ...], str]:
    """What the model may say, and the model as a script, made at once by the build that traces it."""
    said = (name[1] for name in traced().expressions if name[0] in ("problem", "doubt"))
    return tuple(said), javascript.script(traced())


def texts() -> tuple[str, ...]:
    """Why a job cannot run, or may not: all that the model may say."""
    return _written()[0]


def memory_script() -> str:
    """The memory model as a script."""
    return _written()[1]


def command(answers: form.Answers) -> str:
    """What asks ``tuner`` the same."""
    options = f"--gpu {answers['card']} --verl-version {form.RELEASE}"
    return " \\\n  ".join(["tuner advise /dev/null", *form.overrides(answers), options])


def verdict(found: Estimate) -> str:
    """Whether the job fits, by the name of the sentence that says so."""
    if found.problems:
        return "will_not_start"
    if max(phase.interval[0] for phase in found.phases) > found.capacity_bytes:
        return "does_not_fit"
    return "fits" if found.fits_for_certain() else "may_not_fit"


def example(answers: form.Answers, said: Words) -> str:
    """Verdict, bars, numbers and command for some answers."""
    job = read(answers)
    found, rollout = estimate(job), rollout_memory(job)
    reasons = "".join(f"<li>{escape(said[f'said:{text}'])}</li>" for text in (*found.problems, *found.doubts))
    free = found.capacity_bytes - found.worst.peak_bytes
    facts = {
        "worst": f"<code>{found.worst.phase.value}</code>, {gib(found.worst.peak_bytes)}",
        "capacity": gib(found.capacity_bytes),
        "free": gib(free),
        "kv_tokens": exact(rollout.kv_tokens),
        "concurrent": exact(rollout.concurrent_sequences),
        "running": exact(rollout.running_sequences),
    }
    listed = "".join(f"<dt>{escape(said[name])}</dt><dd>{value}</dd>" for name, value in facts.items())
    name = verdict(found)
    return (
        f"<noscript><p>{escape(said['still'])}</p></noscript>"
        f'<div class="calc-verdict" role="status" aria-live="polite" data-verdict="{name}">'
        f"<p><strong>{escape(said[name])}</strong></p><ul>{reasons}</ul></div>"
        f'<section class="calc-answer" aria-label="{escape(said["result"])}">'
        f'<dl class="calc-facts">{listed}</dl>'
        f"{_bars(found, said)}{_legend(found, said)}{_numbers(found, said)}"
        f'<p class="calc-links" hidden><a class="calc-link" href="#calculator">{escape(said["link"])}</a> '
        f'<button type="button" class="calc-reset">{escape(said["reset"])}</button></p>'
        f'<p class="calc-command-title" id="calc-command-title">{escape(said["command"])} '
        f'<button type="button" class="calc-copy" hidden>{escape(said["copy"])}</button></p>'
        '<pre class="calc-command" tabindex="0" aria-labelledby="calc-command-title">'
        f"{escape(command(answers))}</pre>"
        "</section>"
    )


def _bars(found: Estimate, said: Words) -> str:
    scale = max(found.capacity_bytes, found.worst.peak_bytes)
    mark = f"{100 * found.capacity_bytes / scale:.3f}%"
    rows = "".join(_bar(phase, scale, found.capacity_bytes, said, mark) for phase in found.phases)
    return f'<div class="calc-bars">{rows}</div>'


def _bar(phase: PhaseEstimate, scale: int, capacity: int, said: Words, mark: str) -> str:
    parts = ""
    for part in PARTS:
        size = phase.bytes_of(part.item)
        if size:
            title = escape(f"{said[f'part:{part.item.value}']}: {gib(size)}")
            wide = 100 * size / scale
            letter = part.letter if wide > 3 else ""
            parts += (
                f'<span style="width:{wide:.3f}%;background:{colour(part)}" title="{title}">{letter}</span>'
            )
    over = " calc-over" if phase.peak_bytes > capacity else ""
    return (
        f'<div class="calc-bar{over}"><span class="calc-name"><code>{phase.phase.value}</code></span>'
        f'<span class="calc-peak">{gib(phase.peak_bytes)}</span>'
        f'<span class="calc-stack" aria-hidden="true">{parts}<i style="left:{mark}"></i></span></div>'
    )


def _legend(found: Estimate, said: Words) -> str:
    present = [part for part in PARTS if any(phase.bytes_of(part.item) for phase in found.phases)]
    listed = "".join(
        f'<li><span style="background:{colour(part)}">{part.letter}</span> '
        f"{escape(said[f'part:{part.item.value}'])}</li>"
        for part in present
    )
    return f'<ul class="calc-legend">{listed}<li><i></i> {escape(said["card_line"])}</li></ul>'


def _numbers(found: Estimate, said: Words) -> str:
    present = [part for part in PARTS if any(phase.bytes_of(part.item) for phase in found.phases)]
    heads = [
        said["phase"],
        said["peak"],
        said["interval"],
        *(said[f"part:{part.item.value}"] for part in present),
    ]
    rows = "".join(
        f'<tr><th scope="row"><code>{phase.phase.value}</code></th><td>{gib(phase.peak_bytes)}</td>'
        f"<td>{gib_interval(phase.interval)}</td>"
        + "".join(f"<td>{_cell(phase.bytes_of(part.item))}</td>" for part in present)
        + "</tr>"
        for phase in found.phases
    )
    header = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    return (
        f'<details class="calc-numbers"><summary>{escape(said["numbers"])}</summary><div class="calc-table">'
        f'<table class="docutils"><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>'
        "</div></details>"
    )


def _cell(size: int) -> str:
    return gib(size) if size else "–"
