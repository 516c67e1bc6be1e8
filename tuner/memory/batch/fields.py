"""What a micro-batch itself takes on the card: ids, masks, log-probabilities, losses."""

from tuner.workload import Engine


def batch_token_bytes(engine: Engine) -> int:
    r"""Everything of the batch that has one number per token.

    .. math:: w \, s + h

    Under Ulysses each of the :math:`s` ranks of a sequence has the :math:`w` bytes of the fields and the loss
    of the whole sequence, and the :math:`h` bytes of labels and results of the head for its own tokens. How
    many they are is the trainer's to say, see ``TokenBytes``.
    """
    return engine.parallel.ulysses * engine.token_bytes.whole + engine.token_bytes.share
