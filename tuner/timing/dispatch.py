"""Seconds in which a step's batch travels between the trainer's driver and its workers, once for each phase.

The driver holds the batch in tensors that are padded to the longest prompt and response. For each phase it
cuts them, saves every worker's part into bytes, and puts those into the memory that the processes of a node
share; workers read their parts side by side and send back what they computed in the same way. However many
GPUs there are, the driver handles every byte itself.
"""

from tuner.timing import assumptions as assume
from tuner.timing.job import Job
from tuner.workload import Phase, Travel

_ID_BYTES = 8  # ids, masks and positions are int64
_NUMBER_BYTES = 4  # log-probabilities, rewards, advantages are float32

#: Numbers for each token of a response that travel to the workers.
_SENT_NUMBERS = {
    Phase.REF_LOG_PROB: 1,  # old log-probabilities
    Phase.VALUES: 1,
    Phase.UPDATE_ACTOR: 5,  # old log-probabilities, scores, rewards, advantages, returns
    Phase.UPDATE_CRITIC: 5,
}
#: The same, on the way back.
_RETURNED_NUMBERS = {
    Phase.OLD_LOG_PROB: 2,  # the entropy as well
    Phase.REF_LOG_PROB: 1,
    Phase.VALUES: 1,
}


def sent_bytes(job: Job) -> float:
    """The batch of a step as a phase gets it: ``S (8 (2 L' + L) + 8 L_p + (16 + 4 n) L_r)``.

    Ids and positions of the sequence, of L' tokens each, its mask of L, the prompt, the response and its
    mask, and n numbers for each token of the response. L' is L with padding, else the mean length.
    """
    batch = job.batch
    whole = batch.sequence_tokens
    computed = batch.mean_sequence_tokens if batch.travel is Travel.PACKED else whole
    of_response = 2 * _ID_BYTES + _SENT_NUMBERS.get(job.step_pass.phase, 0) * _NUMBER_BYTES
    of_sequence = _ID_BYTES * (2 * computed + whole + batch.max_prompt_tokens)
    return batch.sequences * (of_sequence + of_response * batch.max_response_tokens)


def returned_bytes(job: Job) -> float:
    """What the workers send back: numbers in float32 for each token of a response, padded."""
    numbers = _RETURNED_NUMBERS.get(job.step_pass.phase, 0)
    return job.batch.sequences * numbers * _NUMBER_BYTES * job.batch.max_response_tokens


def dispatch_seconds(job: Job) -> float:
    """Sending by the driver, reading by the workers side by side, and the same of the results.

    Nothing where no driver sends it: it lies in a store of its own, or every process reads its part.
    """
    if job.batch.travel is Travel.STORED:
        return 0.0
    sent, returned, workers = sent_bytes(job), returned_bytes(job), job.engine.parallel.data
    by_driver = sent / assume.SENT_BYTES_PER_S + returned / assume.RECEIVED_BYTES_PER_S
    by_worker = sent / assume.RECEIVED_BYTES_PER_S + returned / assume.SENT_BYTES_PER_S
    return by_driver + by_worker / workers
