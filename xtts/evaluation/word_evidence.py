"""Measures by likelihood whether each word of a text was spoken, without a recogniser.

For each word the spoken codes are scored twice, given the text and given the text without that
word. A spoken word makes the codes likelier by tens of nats; an omitted word does not. The base
model scores the codes of all models, because a model is lenient with its own speech. A person's
accent lowers all words alike, so `train.evaluation.judges` compares the words of a sentence with
each other.
"""

import re
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from xtts.model.gpt import GPT
from xtts.text.tokenizer import Piece, Tokenizer

# More words are sampled at equal distances, because each costs a forward pass.
MAX_SCORED_WORDS = 12
_WORD = re.compile(r"\w")


@torch.inference_mode()
def word_evidence(
    gpt: GPT,
    tokenizer: Tokenizer,
    latents: Tensor,
    piece: Piece,
    language: str,
    codes: Tensor,
    *,
    stopped: bool,
) -> list[float]:
    """The gain in log-likelihood of the codes by each word of a piece, in nats per text token.

    Args:
        latents: The voice's latents `[1, 32, width]`, from the scorer's conditioning encoder.
        codes: The spoken codes `[n]`, without STOP.
        stopped: Whether STOP followed them.

    Returns:
        A figure per word, in the order of the text; empty for a single word or without codes.
    """
    parts = piece.text.split(" ")
    positions = [position for position, part in enumerate(parts) if _WORD.search(part)]
    if len(positions) < 2 or not len(codes):
        return []
    if len(positions) > MAX_SCORED_WORDS:
        positions = [positions[i * len(positions) // MAX_SCORED_WORDS] for i in range(MAX_SCORED_WORDS)]
    shorter_texts = (" ".join(parts[:position] + parts[position + 1 :]) for position in positions)
    shorter_ids = [tokenizer.encode_reading(text, language) for text in shorter_texts]
    with_word, *without_word = log_likelihoods(
        gpt, latents, [piece.ids, *shorter_ids], codes, stopped=stopped
    )
    word_tokens = [max(1, len(piece.ids) - len(ids)) for ids in shorter_ids]
    return [
        float(with_word - likelihood) / num_tokens
        for likelihood, num_tokens in zip(without_word, word_tokens, strict=True)
    ]


def log_likelihoods(
    gpt: GPT, latents: Tensor, texts: Sequence[Sequence[int]], codes: Tensor, *, stopped: bool
) -> list[Tensor]:
    """log p(codes | text) in nats for each of several texts, in one pass. Rows are right-padded,
    which causal attention ignores."""
    targets = torch.cat((codes, codes.new_tensor([gpt.shape.audio_stop])))
    count = len(targets) if stopped else len(codes)
    return [
        -F.cross_entropy(logits[:count], targets[:count], reduction="sum")
        for logits in code_logits(gpt, latents, texts, codes)
    ]


def code_logits(gpt: GPT, latents: Tensor, texts: Sequence[Sequence[int]], codes: Tensor) -> Iterator[Tensor]:
    """The logits `[codes + 1, audio ids]` for each text: at each code, and after the last."""
    device = codes.device
    start = codes.new_tensor([gpt.shape.audio_start])
    positions = torch.arange(len(codes) + 1, device=device)
    embedded = gpt.mel_embedding(torch.cat((start, codes))) + gpt.mel_pos_embedding(positions)
    prefixes = [gpt.prefix(latents, torch.tensor(ids, device=device))[0] for ids in texts]
    max_length = max(map(len, prefixes)) + len(embedded)
    rows = [torch.cat((prefix, embedded)) for prefix in prefixes]
    hidden = gpt.final_norm(gpt.gpt(torch.stack([F.pad(r, (0, 0, 0, max_length - len(r))) for r in rows])))
    for row, prefix in zip(hidden, prefixes, strict=True):
        yield gpt.mel_head(row[len(prefix) : len(prefix) + len(embedded)]).float()
