"""Seconds in which a step's batch travels between the trainer's driver and its workers, once for each phase.

The driver holds the batch in tensors that are padded to the longest prompt and response. For each phase it
cuts them, saves every worker's part into bytes, and puts those into the memory that the processes of a node
share; workers read their parts side by side and send back what they computed in the same way. However many
GPUs there are, the driver handles every byte itself.

Responses come back from the ranks that generate, or from the processes that hold conversations, in tensors
that are padded likewise. The driver reads all parts and joins them into one batch: a copy of every tensor.
Where the engine runs in the ranks, they get the prompts as padded tensors as well, and make tensors of the
engine's lists of tokens before they send any, number by number.
"""

from tuner.timing import assumptions as assume
from tuner.timing.decode import RolloutInput
from tuner.timing.job import TimedPasses
from tuner.workload import Phase, RolloutEngine, Travel

_ID_BYTES = 8  # ids, masks and positions are int64
_NUMBER_BYTES = 4  # log-probabilities, rewards, advantages are float32

_WITHOUT_DRIVER = (Travel.STORED, Travel.OWN)

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


def sent_bytes(job: TimedPasses) -> float:
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


def returned_bytes(job: TimedPasses) -> float:
    """What the workers send back: numbers in float32 for each token of a response, padded."""
    numbers = _RETURNED_NUMBERS.get(job.step_pass.phase, 0)
    return job.batch.sequences * numbers * _NUMBER_BYTES * job.batch.max_response_tokens


def dispatch_seconds(job: TimedPasses) -> float:
    """Sending by the driver, reading by the workers side by side, and the same of the results.

    Nothing where no driver sends it: it lies in a store of its own (``tuner.timing.records``), or every
    process reads its part.
    """
    if job.batch.travel in _WITHOUT_DRIVER:
        return 0.0
    sent, returned, workers = sent_bytes(job), returned_bytes(job), job.engine.parallel.data
    by_driver = sent / assume.SENT_BYTES_PER_S + returned / assume.RECEIVED_BYTES_PER_S
    by_worker = sent / assume.RECEIVED_BYTES_PER_S + returned / assume.SENT_BYTES_PER_S
    return by_driver + by_worker / workers


def prompt_bytes(inputs: RolloutInput) -> float:
    """What the ranks that generate get: ``24 S L_p``, ids, mask and positions of each padded prompt.

    Processes that hold conversations get texts. Up to verl 0.4.1 a prompt was sent once.

    Source: verl 0.5.0 ``trainer/ppo/ray_trainer.py`` (``fit``), 0.7.1 (``_get_gen_batch``).
    """
    if inputs.agents:
        return 0.0
    return inputs.batch.generated_sequences * 3 * _ID_BYTES * inputs.batch.max_prompt_tokens


def response_bytes(inputs: RolloutInput) -> float:
    """What comes back: ``S (8 (3 L + L_p + L_r) + (8 a + 4 l) L_r)``.

    Ids, mask and positions of the sequence, the prompt and the response; the response's mask where processes
    hold conversations (a is 1), and log-probabilities where the engine returns them (l is 1).

    Source: verl 0.5.0 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py`` (``generate_sequences``),
    ``experimental/agent_loop/agent_loop.py`` (``_postprocess``).
    """
    batch = inputs.batch
    whole = 3 * batch.sequence_tokens + batch.max_prompt_tokens + batch.max_response_tokens
    of_response = (_ID_BYTES if inputs.agents else 0) + (
        _NUMBER_BYTES if inputs.rollout.returns_log_probs else 0
    )
    return batch.generated_sequences * (_ID_BYTES * whole + of_response * batch.max_response_tokens)


def listing_seconds(inputs: RolloutInput) -> float:
    """Seconds in which a rank makes padded tensors of its engine's lists, of tokens and log-probabilities.

    Each rank of a replica does so for all of the replica's sequences. Processes that hold conversations do it
    response by response, while others are generated.

    Source: verl 0.5.0 ``utils/torch_functional.py`` (``pad_2d_list_to_length``).
    """
    if inputs.agents or inputs.rollout.engine is not RolloutEngine.VLLM:
        return 0.0
    lists = 2 if inputs.rollout.returns_log_probs else 1
    numbers = inputs.batch.generated_sequences / inputs.rollout.replicas * inputs.batch.max_response_tokens
    return lists * numbers * assume.LISTED_NUMBER_S


def request_seconds(inputs: RolloutInput) -> float:
    """Seconds until the processes that hold conversations have begun all that are generated, each its share.

    A process begins its conversations one after the other, and every first request waits its turn behind the
    beginning of all others: tasks of one event loop are continued in the order in which they became ready.

    Source: verl 0.5.0 to 0.9.1 ``experimental/agent_loop/agent_loop.py`` (``_run_agent_loop``).
    """
    if not inputs.agents:
        return 0.0
    begun = inputs.batch.generated_share * inputs.batch.sequences
    return begun / inputs.agents * assume.AGENT_BEGIN_S


def response_seconds(inputs: RolloutInput) -> float:
    """Sending prompts and getting responses, all that are generated; nothing where no driver has them."""
    if inputs.batch.travel in _WITHOUT_DRIVER:
        return 0.0
    return inputs.batch.generated_share * _seconds_of_trained(inputs)


def _seconds_of_trained(inputs: RolloutInput) -> float:
    """Seconds of sending and getting as many sequences as are trained on."""
    sent, returned = prompt_bytes(inputs), response_bytes(inputs)
    workers = inputs.agents or inputs.cluster.gpus
    by_driver = sent / assume.SENT_BYTES_PER_S + returned / assume.RECEIVED_BYTES_PER_S
    joined = returned / assume.FRESH_BYTES_PER_S
    by_worker = sent / assume.RECEIVED_BYTES_PER_S + returned / assume.SENT_BYTES_PER_S
    return by_driver + joined + by_worker / workers + listing_seconds(inputs)
