"""Measures by likelihood whether each word of a text was spoken, without a recogniser.

For each word the spoken codes are scored twice, given the text and given the text without that
word. A word that was said makes the codes likelier by tens of nats; one that was left out makes
them no likelier at all. The scorer is the base model, whoever spoke: a model would forgive itself.
A person's own way of saying things lowers all words alike, and `train.evaluation.judges` compares
the words of a sentence with each other.
"""

import re
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from xtts.model.gpt import GPT
from xtts.text.tokenizer import Piece, Tokenizer

# Of a long text so many words are asked about, spread over it: each costs a forward pass.
MOST_WORDS = 12
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
    """For each word of a piece, by how many nats a text token it makes the codes likelier.

    Args:
        latents: Of the voice, by the scorer's own conditioning, `[1, 32, width]`.
        codes: What was spoken, `[n]`, without STOP.
        stopped: Whether STOP was said behind them.

    Returns:
        A figure a word, in the order of the text; empty for a single word or nothing said.
    """
    parts = piece.text.split(" ")
    places = [place for place, part in enumerate(parts) if _WORD.search(part)]
    if len(places) < 2 or not len(codes):
        return []
    chosen = [places[i * len(places) // MOST_WORDS] for i in range(MOST_WORDS)]
    chosen = places if len(places) <= MOST_WORDS else chosen
    without = [
        tokenizer.encode_reading(" ".join(parts[:place] + parts[place + 1 :]), language)
        for place in chosen
    ]
    whole, *others = log_likelihoods(gpt, latents, [piece.ids, *without], codes, stopped=stopped)
    tokens = [max(1, len(piece.ids) - len(ids)) for ids in without]
    return [float(whole - other) / count for other, count in zip(others, tokens, strict=True)]


def log_likelihoods(
    gpt: GPT, latents: Tensor, texts: Sequence[Sequence[int]], codes: Tensor, *, stopped: bool
) -> list[Tensor]:
    """log p(codes | text) in nats for each of several texts, in one padded pass; no position
    attends to the padding after a row's end."""
    wanted = torch.cat((codes, codes.new_tensor([gpt.shape.audio_stop])))
    count = len(wanted) if stopped else len(codes)
    return [
        -F.cross_entropy(logits[:count], wanted[:count], reduction="sum")
        for logits in _logits(gpt, latents, texts, codes)
    ]


@torch.inference_mode()
def code_log_likelihoods(
    gpt: GPT, latents: Tensor, texts: Sequence[Sequence[int]], codes: Tensor
) -> tuple[Tensor, Tensor]:
    """Nats of each code given those before it and a text, `[texts, codes]`, and of STOP in the
    place of each code and behind the last, `[texts, codes + 1]`."""
    code_losses, stop = [], []
    for logits in _logits(gpt, latents, texts, codes):
        nats = logits.log_softmax(-1)
        code_losses.append(nats[:-1].gather(1, codes[:, None])[:, 0])
        stop.append(nats[:, gpt.shape.audio_stop])
    return torch.stack(code_losses), torch.stack(stop)


def _logits(
    gpt: GPT, latents: Tensor, texts: Sequence[Sequence[int]], codes: Tensor
) -> Iterator[Tensor]:
    """`[codes + 1, audio ids]` for each text: of each code, and of what follows the last."""
    device = codes.device
    start = codes.new_tensor([gpt.shape.audio_start])
    places = torch.arange(len(codes) + 1, device=device)
    embedded = gpt.mel_embedding(torch.cat((start, codes))) + gpt.mel_pos_embedding(places)
    prefixes = [gpt.prefix(latents, torch.tensor(ids, device=device))[0] for ids in texts]
    longest = max(map(len, prefixes)) + len(embedded)
    rows = [torch.cat((prefix, embedded)) for prefix in prefixes]
    hidden = gpt.final_norm(
        gpt.gpt(torch.stack([F.pad(r, (0, 0, 0, longest - len(r))) for r in rows]))
    )
    for row, prefix in zip(hidden, prefixes, strict=True):
        yield gpt.mel_head(row[len(prefix) : len(prefix) + len(embedded)]).float()
