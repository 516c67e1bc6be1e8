"""The vision tower at work: what it keeps of the patches of a micro-batch's images."""

SYMBOLS = {
    "D": "blocks of the vision tower",
    "P": "patches that the tower sees at once",
    "a_d": "bytes of the gradients in flight in a block of the tower per patch",
    "a_k": "bytes that a block of the tower keeps per patch",
    "a_m": "bytes that a merger keeps per patch",
    "a_o": "bytes of the tower's output per token",
    "a_p": "bytes of the patch itself, its numbers and its rotary tables",
    "a_r": "bytes of rotary tables that a block keeps of its own per patch",
    "a_v": "bytes of the patch's numbers in the compute dtype",
    "a_t": "bytes that a block of the tower needs at once per patch, its input included",
    "m_s": "patches that become one token",
    "n_v": "mergers, each of which makes tokens of all patches",
}
