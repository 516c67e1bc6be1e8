"""The advice as a person reads it: verdict, premises, bars, advice by gain, everything together."""

from collections.abc import Iterator

from tuner.advise import Advice, Verdict
from tuner.hardware import MeasuredGpu
from tuner.memory import Estimate
from tuner.memory.rollout.share import FRACTION_MEANS
from tuner.render.answer import Answer
from tuner.render.bars import PARTS, chart
from tuner.render.fitting import unset
from tuner.render.numbers import gib, interval, parameters, percent, tokens
from tuner.render.recommendations import combination, place, recommendations
from tuner.render.releases import against, not_known
from tuner.render.terminal import Terminal, plain
from tuner.workload import RolloutEngine, Workload

_LABEL = 10  # width of the premises' names
_LARGEST = 3  # parts named when the job does not fit
_GLUE = "\u2060"  # a word joiner, which no text to be wrapped holds


def advice_text(answer: Answer, terminal: Terminal, *, explain: bool = False) -> str:
    """The whole answer. ``explain`` adds the sum of every phase, written out."""
    advice = answer.advice
    sections = [
        _failed_allocation(answer, terminal),
        verdict(advice, terminal),
        _premises(answer, terminal),
        _title("GPU memory by phase, per GPU", terminal) + "\n" + chart(advice.estimate, terminal),
        _aside(advice, terminal),
        _sums(advice, terminal) if explain else "",
        _unknown(answer, terminal),
        recommendations(advice, terminal),
        combination(advice, terminal),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _failed_allocation(answer: Answer, terminal: Terminal) -> str:
    if answer.allocation is None:
        return ""
    from tuner.render.allocation import allocation_text  # few runs ask for it, and it has much behind it

    return allocation_text(answer.allocation, terminal)


def _sums(advice: Advice, terminal: Terminal) -> str:
    from tuner.render.explain import explanation  # the same

    return explanation(advice.workload, advice.estimate, terminal)


def verdict(advice: Advice, terminal: Terminal) -> str:
    """Whether it fits, in which phase it is tightest, and by how much."""
    estimate = advice.estimate
    free = estimate.capacity_bytes - estimate.worst.peak_bytes
    where = _peak(estimate)
    if advice.verdict in (Verdict.FITS, Verdict.FITS_ALONE):
        text = f"{where}; {_free(advice)}."
    elif advice.verdict is Verdict.DEPENDS_ON_RELEASE:
        text = f"{against(advice)}."
    elif advice.verdict is Verdict.FITS_WHILE_SHORT:
        average = f"sequences may average {advice.mean_tokens:,} of at most {_longest(advice):,} tokens"
        text = f"{average}; at full length {where}."
    elif free < 0:
        text = f"{where}, {gib(-free)} too much."
    else:
        text = f"{where}, but {_obstacle(estimate)}."
    word, colour = _word(advice)
    # The words are one piece while the line is wrapped, so that they can be painted in one.
    lines = [terminal.prose(f"{word.replace(' ', _GLUE)}: {text}").replace(_GLUE, " ")]
    lines[0] = lines[0].replace(word, terminal.style(word, "bold", colour), 1)
    if free < 0:
        lines.append(terminal.prose(_largest_parts(estimate), indent="  "))
    reasons = (*estimate.problems, *estimate.doubts)
    lines += [terminal.prose(plain(reason), indent="  ") for reason in reasons]
    return "\n".join(lines)


def _word(advice: Advice) -> tuple[str, str]:
    """The verdict in words, and their colour."""
    if advice.verdict is Verdict.DOES_NOT_FIT:
        fits_card = advice.estimate.worst.peak_bytes <= advice.estimate.capacity_bytes
        return ("CANNOT START" if fits_card and not advice.estimate.host_is_short else "WILL NOT FIT"), "red"
    return {
        Verdict.FITS: ("FITS", "green"),
        Verdict.FITS_ALONE: ("FITS IF NOTHING ELSE USES THE GPU", "yellow"),
        Verdict.DEPENDS_ON_RELEASE: ("MAY NOT FIT", "yellow"),
        Verdict.FITS_WHILE_SHORT: ("FITS WHILE SHORT", "yellow"),
    }[advice.verdict]


def _peak(estimate: Estimate) -> str:
    """The worst phase, its peak and the interval around it, and the card."""
    worst = estimate.worst
    peak = f"{worst.phase.value} peaks at {gib(worst.peak_bytes)} ({interval(worst.interval)})"
    return f"{peak} of {gib(estimate.capacity_bytes)}"


def _free(advice: Advice) -> str:
    """What stays free beside the expected peak, and whether it is less than the headroom."""
    capacity = advice.estimate.capacity_bytes
    free = capacity - advice.estimate.worst.peak_bytes
    text = f"{gib(free)} ({percent(free / capacity)}) stay free"
    if free >= capacity * advice.headroom:
        return text
    return f"{text}, less than the headroom of {percent(advice.headroom)}"


def _obstacle(estimate: Estimate) -> str:
    """Why a job whose phases fit the card does not run."""
    limit = estimate.host_capacity_bytes
    if limit is None or not estimate.host_is_short:
        return "the job cannot start"
    return f"the job takes {gib(estimate.host_bytes)} of {gib(limit)} host memory per node"


def _longest(advice: Advice) -> int:
    return advice.workload.batch.sequence_tokens


def _largest_parts(estimate: Estimate) -> str:
    worst = estimate.worst
    amounts = sorted(((worst.bytes_of(part.item), part.label) for part in PARTS), reverse=True)[:_LARGEST]
    largest = ", ".join(f"{label} {gib(amount)}" for amount, label in amounts if amount)
    others = [
        f"{phase.phase.value} {gib(phase.peak_bytes)}"
        for phase in estimate.phases
        if phase is not worst and phase.peak_bytes > estimate.capacity_bytes
    ]
    return f"Largest parts: {largest}." + (f" Too large as well: {', '.join(others)}." if others else "")


def _title(text: str, terminal: Terminal) -> str:
    return terminal.style(terminal.prose(text), "bold")


def _premises(answer: Answer, terminal: Terminal) -> str:
    advice = answer.advice
    workload = advice.workload
    cluster = workload.cluster
    model = workload.model
    nodes = f"{cluster.nodes} node" + ("s" if cluster.nodes > 1 else "")
    rows = [
        ("trainer", f"{workload.release}, {workload.actor.engine.backend.value} ({answer.release_reason})"),
        *((("not known", not_known(advice)),) if advice.releases is not None else ()),
        *_rollout_engine(answer),
        ("model", f"{model.name}, {parameters(model.parameters)} parameters ({answer.model_reason})"),
    ]
    if workload.critic is not None:
        critic = workload.critic.model
        rows.append(("critic", f"{critic.name}, {parameters(critic.parameters)} parameters"))
    gpu = f"{cluster.gpus} x {cluster.gpu.name}, {gib(cluster.gpu.capacity_bytes)} each, on {nodes}"
    rows += [
        ("GPUs", f"{gpu} ({answer.gpu_reason}; number from {answer.gpus_reason})"),
        *((("measured", _measured(cluster.gpu.measured)),) if cluster.gpu.measured is not None else ()),
        ("batch", _batch(workload)),
    ]
    if answer.resting:
        rows.append(("not set", unset(answer)))
    indent = " " * (_LABEL + 2)
    lines = [terminal.prose(plain(text), indent=indent, first=f"  {name:<{_LABEL}}") for name, text in rows]
    if answer.gpu_assumed:
        text = terminal.prose(
            f"ASSUMED: no GPU was named and none was found; {gib(cluster.gpu.memory_bytes)} are taken. "
            "Give --gpu NAME.",
            indent="  ",
        )
        lines.insert(0, text.replace("ASSUMED", terminal.style("ASSUMED", "bold", "yellow"), 1))
    return "\n".join(lines)


def _rollout_engine(answer: Answer) -> Iterator[tuple[str, str]]:
    chosen = answer.rollout_engine
    if chosen is not None:
        yield "engine", f"{chosen.name} {chosen.version} ({chosen.reason})"


_MEASURED = {
    "usable_bytes": "usable memory",
    "context_bytes": "the context of a process",
    "memory_bytes_per_s": "bandwidth of the memory",
    "dense_bf16_flop_per_s": "rate of matrix products",
    "link_bytes_per_s": "bandwidth between GPUs",
    "host_bytes_per_s": "bandwidth to the host",
}


def _measured(measured: MeasuredGpu) -> str:
    """What the GPU's figures are read off, and with what."""
    figures = [text for name, text in _MEASURED.items() if getattr(measured, name) is not None]
    versions = ", ".join(f"{name} {version}" for name, version in measured.versions)
    return f"on such a card on {measured.date} ({versions}): {', '.join(figures)}"


def _batch(workload: Workload) -> str:
    batch = workload.batch
    return (
        f"{batch.prompts:,} prompts x {batch.responses_per_prompt} responses, mini-batch of "
        f"{batch.mini_batch_prompts:,} prompts, up to {tokens(batch.max_prompt_tokens)} + "
        f"{tokens(batch.max_response_tokens)} tokens"
    )


def _aside(advice: Advice, terminal: Terminal) -> str:
    lines = []
    rollout = advice.rollout
    if rollout.kv_tokens > 0:
        cache = (
            f"KV cache: {gib(rollout.kv_bytes)} hold {rollout.kv_tokens:,} tokens per replica, "
            f"{rollout.concurrent_sequences:,} sequences of full length at a time "
            f"(at most {advice.workload.rollout.max_sequences:,} are admitted)."
        )
        if rollout.preempted_sequences:
            cache += (
                f" When all {rollout.running_sequences:,} that run grow to full length, "
                f"{rollout.preempted_sequences:,} are preempted and computed again."
            )
        lines.append(terminal.prose(cache, indent="    ", first="  "))
    rollout_engine = advice.workload.rollout
    if rollout_engine.engine is not RolloutEngine.TRANSFORMERS:
        means = FRACTION_MEANS[rollout_engine.fraction_of]
        fraction = f"The engine's memory fraction of {rollout_engine.memory_fraction:.2f} is {means}."
        lines.append(terminal.prose(fraction, indent="    ", first="  "))
    if advice.time.seconds > 0:
        ranked = sorted(advice.time.phases, key=lambda time: time.seconds, reverse=True)
        shares = ", ".join(
            f"{time.phase.value} {percent(time.seconds / advice.time.seconds)}"
            for time in ranked
            if time.seconds >= 0.005 * advice.time.seconds
        )
        lines.append(terminal.prose(f"Step time, modelled: {shares}.", indent="    ", first="  "))
    widest = max(advice.estimate.phases, key=lambda phase: phase.reserved_interval[1])
    kept = widest.reserved_interval[1] - widest.allocated_bytes
    if kept > 0:
        reserved = (
            f"Cache: PyTorch may keep up to {gib(kept)} of freed blocks beyond {widest.phase.value}'s peak, "
            "which nvidia-smi shows as used; a request that fails gets them."
        )
        lines.append(terminal.prose(reserved, indent="    ", first="  "))
    if advice.estimate.host_bytes > 0:
        lines.append(terminal.prose(_host(advice.estimate), indent="    ", first="  "))
    return "\n".join(lines)


def _host(estimate: Estimate) -> str:
    """Host memory of a node, and whether it may be more than there is."""
    limit, most = estimate.host_capacity_bytes, estimate.host_high_bytes
    of = f" of {gib(limit)}" if limit is not None else ""
    text = f"Host memory per node: {gib(estimate.host_bytes)}{of} for offloaded states and copies"
    if most == estimate.host_bytes:
        return f"{text}."
    pinned = f"{text}, up to {gib(most)} where pinned memory is rounded up to powers of two"
    if limit is None or estimate.host_is_short or most <= limit:
        return f"{pinned}."
    return f"{pinned}, which is more than a node has."


def _unknown(answer: Answer, terminal: Terminal) -> str:
    if not answer.unknown:
        return ""
    release = answer.advice.workload.release
    head = f"Unknown to {release}, not taken into account"
    lines = [_title(head, terminal)]
    for unknown in answer.unknown:
        lines.append(f"  {plain(unknown.key)} ({plain(place(unknown.location))})")
        if unknown.nearest == f"+{unknown.key}":
            lines.append(f"    Hydra takes it as: {plain(unknown.nearest)}=...")
        elif unknown.nearest is not None:
            lines.append(f"    nearest known key: {plain(unknown.nearest)}")
        if unknown.known_in:
            lines.append(f"    known to {release.trainer} {', '.join(unknown.known_in)}")
    return "\n".join(lines)
