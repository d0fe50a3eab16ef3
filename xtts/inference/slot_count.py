"""How many utterances a GPU's free memory has room for at once.

On a GPU every slot's keys and values are there from the start, for as long as an utterance may get:
257 MB a slot at XTTS-v2's size in float32. Pure but for `slots_on`, which asks the GPU.
"""

import torch

from xtts.model.gpt import GPT
from xtts.model.shapes import NUM_LATENTS, GPTShape

# For the vocoder's windows, a prefill, recordings that are read, and the plans of cuDNN and cuBLAS.
OTHERS_BYTES = 768 << 20


def positions(shape: GPTShape) -> int:
    """Of a slot: latents, text and codes; warming up a recorded step counts a few more."""
    return NUM_LATENTS + shape.text_positions + shape.audio_positions + 4


def slot_bytes(shape: GPTShape, item_bytes: int) -> int:
    """Keys and values of one slot; item_bytes: of one number of them."""
    return 2 * shape.layers * shape.width * positions(shape) * item_bytes


def fitting(wanted: int, free_bytes: int, slot: int, *, promoted_bytes: int = 0) -> int:
    """How many slots of `slot` bytes to make, at least 1 and at most `wanted`.

    promoted_bytes: of the weights of a voice that is to be opened beside this one later, with as
    many slots; 0 where this is that voice.
    """
    voices = 2 if promoted_bytes else 1
    room = free_bytes - OTHERS_BYTES - promoted_bytes
    return max(1, min(wanted, room // (voices * slot)))


def slots_on(gpt: GPT, wanted: int, *, beside_another: bool) -> int:
    """`wanted` on a CPU, whose slots take memory as they speak; on a GPU what is free decides.
    beside_another: another voice of the same service stands there already."""
    weight = gpt.mel_head.weight
    if weight.device.type != "cuda":
        return wanted
    free = torch.cuda.mem_get_info(weight.device)[0]
    free += torch.cuda.memory_reserved(weight.device) - torch.cuda.memory_allocated(weight.device)
    weights = sum(parameter.nbytes for parameter in gpt.parameters())
    slot = slot_bytes(gpt.shape, gpt.gpt.cache_type.itemsize)
    return fitting(wanted, free, slot, promoted_bytes=0 if beside_another else weights)
