"""A failed allocation in words: the tensor, its formula with the numbers put in, and what helps."""

from tuner.advise.allocation import Agreement, Cause, Explained, Explanation
from tuner.memory.failed_allocation.explanation import Confidence, FailedAllocation, Match
from tuner.render.numbers import gib
from tuner.render.terminal import Terminal

_OTHERS = 3  # further candidates that are named
_INDENT = "  "
_VERDICTS = {
    Confidence.EXACT: "",
    Confidence.LIKELY: "most likely ",
    Confidence.POSSIBLE: "perhaps ",
    Confidence.OVERFULL: "perhaps ",
    Confidence.TOO_LONG: "hardly ",
}
_CAUSES = {
    Cause.OTHER_SETTINGS: "settings of the job that failed which are not in this configuration",
    Cause.FRAGMENTED: "memory in pieces (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)",
    Cause.INTERVAL: "a peak at the high end of its interval",
    Cause.ASSUMED_CARD: "another card than the assumed one",
    Cause.OTHERS: "another process on the GPU (nvidia-smi shows it), or a part that is not modelled",
}


def allocation_text(explanation: Explanation, terminal: Terminal) -> str:
    """The section that stands before the verdict."""
    title = f"Failed allocation of {explanation.failed.text}"
    head = terminal.style(title, "bold")
    if not explanation.candidates:
        nothing = f"{head}\n{_INDENT}No tensor of this configuration has this size."
        return "\n".join([nothing, *_beside_the_verdict(explanation, terminal)])
    first, *others = explanation.candidates
    lines = [terminal.prose(f"{title}: {_named(first.match)}").replace(title, head, 1)]
    lines.append(terminal.prose(f"= {formula(first.match)}", indent=_INDENT * 2, first=_INDENT))
    lines.append(terminal.prose(f"Made by {first.match.tensor.made_by}.", indent=_INDENT))
    lines += [terminal.prose(note, indent=_INDENT) for note in _notes(explanation.failed, first)]
    also = [
        explained.match
        for explained in others
        if explained.match.confidence is first.match.confidence or explained.match.claimed
    ]
    lines += [
        terminal.prose(f"or {_named(match)} = {formula(match)}", indent=_INDENT * 2, first=_INDENT)
        for match in also[:_OTHERS]
    ]
    lines += _beside_the_verdict(explanation, terminal)
    return "\n".join(lines)


def _beside_the_verdict(explanation: Explanation, terminal: Terminal) -> list[str]:
    """How the error goes with what the model says of the job."""
    standing = explanation.standing
    if standing is None:
        return []
    peak = f"{standing.phase.value} peaks at {gib(standing.peak_bytes)} of {gib(standing.capacity_bytes)}"
    if standing.agreement is Agreement.AGREES:
        return [terminal.prose(f"The model says that {peak}: the error agrees.", indent=_INDENT)]
    fits = "it fits" if standing.agreement is Agreement.CONTRADICTS else "another phase is over the card"
    causes = "; ".join(_CAUSES[cause] for cause in standing.causes)
    return [
        terminal.prose(f"The model says that {fits}: {peak}.", indent=_INDENT),
        terminal.prose(f"What could explain the error: {causes}.", indent=_INDENT),
    ]


def formula(match: Match) -> str:
    """The product with the numbers put in: ``24,555 tokens x 152,064 vocabulary entries x 4 bytes``."""
    tensor = match.tensor
    factors = [f"{count:,} {counted}" for count, counted in tensor.factors]
    if match.tokens is not None:
        factors = [f"{match.tokens:,} tokens"] * (2 if tensor.quadratic else 1) + factors
    shared = f" / {tensor.ranks:,} ranks" if tensor.ranks > 1 else ""
    size = f" x {tensor.dtype_bytes} bytes" if tensor.dtype_bytes > 1 else ""
    return " x ".join(factors) + shared + size


def _named(match: Match) -> str:
    tensor = match.tensor
    dtype = " in float32" if tensor.name == "logits_float32" else ""
    phases = " and ".join(phase.value for phase in tensor.phases)
    return f"{_VERDICTS[match.confidence]}{tensor.what}{dtype}" + (f" ({phases})" if phases else "")


def _notes(failed: FailedAllocation, first: Explained) -> list[str]:
    match, full = first.match, first.match.tensor.tokens
    notes = []
    if match.tokens is not None and match.low_tokens is not None and match.high_tokens is not None:
        spread = f"{match.low_tokens:,} to {match.high_tokens:,} tokens give this figure"
        notes.append(f"{spread}; {_compared(match)}." if full else f"{spread}.")
    if failed.free_bytes is not None and failed.unused_bytes is not None:
        held = f"{gib(failed.free_bytes)} were free and {gib(failed.unused_bytes)} reserved but unused"
        enough = failed.free_bytes + failed.unused_bytes >= failed.low_bytes
        notes.append(f"{held}: {'enough together, but fragmented' if enough else 'not enough together'}.")
    if first.advice:
        notes.append(f"Rules that make it smaller: {', '.join(first.advice)}.")
    return notes


def _compared(match: Match) -> str:
    """The tokens beside those of a full micro-batch."""
    unit = "the longest sequence" if match.tensor.quadratic else "a full micro-batch"
    holds = f"{unit} has {match.tensor.tokens:,}"
    if match.confidence is Confidence.OVERFULL:
        return f"{holds} here, so the job that failed was set otherwise, or this was another tensor"
    if match.confidence is Confidence.TOO_LONG:
        return f"{holds} here, so this was another tensor or another job"
    if match.confidence is Confidence.POSSIBLE:
        return f"{holds}, and some number below that fits any size"
    return holds
