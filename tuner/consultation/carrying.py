"""How far a job carries that an answer is about: the one that starts, where something refuses the launch."""

from tuner.advise import Reading
from tuner.consultation.result import Consultation
from tuner.plan.carrying import Carrying, carrying


def carried_job(answer: Consultation) -> Reading | None:
    """The job whose figures an answer has, as it is read; None where no lengths can be asked about.

    Not where what its release does is not known, where a model of it or its engine is not modelled, where no
    update runs, or where the configuration is not here.
    """
    advice, reading = answer.advice, answer.reading
    unknown = advice.releases is not None or bool(advice.workload.unmodelled_engine)
    if reading is None or unknown or advice.validates_only or answer.given.missing is not None:
        return None
    lifting = [text for refusal in advice.refusals for text in refusal.overrides]
    try:
        started = reading.adding(lifting) if lifting else reading
    except ValueError:
        return None
    return started if started.workload == advice.workload else None


def answered_carrying(answer: Consultation) -> Carrying | None:
    """How long the responses of an answer's job may get; None where nothing says so."""
    job = carried_job(answer)
    return None if job is None else carrying(job)
