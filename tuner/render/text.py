"""The advice as a person reads it: verdict, premises, bars, advice by gain, everything together."""

from tuner.advise import Advice, Verdict
from tuner.memory import Estimate
from tuner.render.answer import Answer
from tuner.render.bars import PARTS, chart
from tuner.render.numbers import gib, parameters, percent, tokens
from tuner.render.recommendations import combination, place, recommendations
from tuner.render.terminal import Terminal, plain
from tuner.workload import Workload

_LABEL = 10  # width of the premises' names
_LARGEST = 3  # parts named when the job does not fit


def advice_text(answer: Answer, terminal: Terminal, *, terms: bool = False) -> str:
    """The whole answer. ``terms`` adds every term of every phase."""
    advice = answer.advice
    sections = [
        verdict(advice, terminal),
        _premises(answer, terminal),
        _title("GPU memory by phase, per GPU", terminal) + "\n" + chart(advice.estimate, terminal),
        _aside(advice, terminal),
        _terms(advice.estimate, terminal) if terms else "",
        _unknown(answer, terminal),
        recommendations(advice, terminal),
        combination(advice, terminal),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def verdict(advice: Advice, terminal: Terminal) -> str:
    """Whether it fits, in which phase it is tightest, and by how much."""
    estimate = advice.estimate
    worst, capacity = estimate.worst, estimate.capacity_bytes
    where = f"{worst.phase.value} peaks at {gib(worst.peak_bytes)} of {gib(capacity)}"
    free = capacity - worst.peak_bytes
    if advice.verdict is Verdict.FITS:
        word, colour, text = "FITS", "green", f"{where}; {gib(free)} ({percent(free / capacity)}) stay free."
    elif advice.verdict is Verdict.TIGHT:
        wanted = gib(round(capacity * advice.headroom))
        asked = f"the headroom of {percent(advice.headroom)} asks for {wanted}"
        word, colour, text = "TIGHT", "yellow", f"{where}; {gib(free)} stay free, {asked}."
    elif advice.verdict is Verdict.FITS_WHILE_SHORT:
        average = f"sequences may average {advice.mean_tokens:,} of at most {_longest(advice):,} tokens"
        word, colour, text = "FITS WHILE SHORT", "yellow", f"{average}; at full length {where}."
    elif free < 0:
        word, colour = "DOES NOT FIT", "red"
        text = f"{where}, {gib(-free)} too much."
    else:
        word, colour, text = "CANNOT START", "red", f"{where}, but the job cannot start."
    lines = [terminal.prose(f"{word}: {text}").replace(word, terminal.style(word, "bold", colour), 1)]
    if free < 0:
        lines.append(terminal.prose(_largest_parts(estimate), indent="  "))
    lines += [terminal.prose(plain(problem), indent="  ") for problem in estimate.problems]
    return "\n".join(lines)


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
    workload = answer.advice.workload
    cluster = workload.cluster
    model = workload.model
    nodes = f"{cluster.nodes} node" + ("s" if cluster.nodes > 1 else "")
    rows = [
        ("trainer", f"{workload.release}, {workload.actor.engine.backend.value} ({answer.release_reason})"),
        ("model", f"{model.name}, {parameters(model.parameters)} parameters ({answer.model_reason})"),
    ]
    if workload.critic is not None:
        critic = workload.critic.model
        rows.append(("critic", f"{critic.name}, {parameters(critic.parameters)} parameters"))
    gpu = f"{cluster.gpus} x {cluster.gpu.name}, {gib(cluster.gpu.memory_bytes)} each, on {nodes}"
    rows += [
        ("GPUs", f"{gpu} ({answer.gpu_reason}; number from {answer.gpus_reason})"),
        ("batch", _batch(workload)),
    ]
    if answer.resting:
        unset = ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in answer.resting)
        rows.append(("not set", f"{unset} (defaults)"))
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
        lines.append(terminal.prose(cache, indent="    ", first="  "))
    if advice.time.seconds > 0:
        ranked = sorted(advice.time.phases, key=lambda time: time.seconds, reverse=True)
        shares = ", ".join(
            f"{time.phase.value} {percent(time.seconds / advice.time.seconds)}"
            for time in ranked
            if time.seconds >= 0.005 * advice.time.seconds
        )
        lines.append(terminal.prose(f"Step time, modelled: {shares}.", indent="    ", first="  "))
    if advice.estimate.host_bytes > 0:
        limit = advice.workload.cluster.host_memory_bytes
        of = f" of {gib(limit)}" if limit is not None else ""
        host = f"Host memory per node: {gib(advice.estimate.host_bytes)}{of} for offloaded states and copies."
        lines.append(terminal.prose(host, indent="    ", first="  "))
    return "\n".join(lines)


def _terms(estimate: Estimate, terminal: Terminal) -> str:
    lines = [_title("Every term at the peak of its phase", terminal)]
    for phase in estimate.phases:
        lines.append(f"  {phase.phase.value} ({phase.peak.name}), {gib(phase.peak_bytes)}")
        for term in sorted(phase.peak.terms, key=lambda term: term.bytes, reverse=True):
            if term.bytes:
                lines.append(f"  {gib(term.bytes):>12}  {term.name} [{term.evidence.value}]")
                if term.formula:
                    lines.append(terminal.prose(f"= {term.formula}", indent=" " * 18, first=" " * 16))
    return "\n".join(lines)


def _unknown(answer: Answer, terminal: Terminal) -> str:
    if not answer.unknown:
        return ""
    head = f"Unknown to {answer.advice.workload.release}, not taken into account"
    lines = [_title(head, terminal)]
    for unknown in answer.unknown:
        lines.append(f"  {plain(unknown.key)} ({plain(place(unknown.location))})")
        if unknown.nearest == f"+{unknown.key}":
            lines.append(f"    Hydra takes it as: {plain(unknown.nearest)}=...")
        elif unknown.nearest is not None:
            lines.append(f"    nearest known key: {plain(unknown.nearest)}")
        if unknown.known_in:
            lines.append(f"    known to verl {', '.join(unknown.known_in)}")
    return "\n".join(lines)
