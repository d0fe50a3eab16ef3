"""Targets of the GPT for each clip: phones, codes and the four mel frames of each code.

Computed once per shard.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from demo_voice import stages
from demo_voice.recipe import CHARACTERS
from demo_voice.teachers.flite import TeacherClip, TeacherSpeech
from xtts.audio import CODE_RATE, MEL_BANDS, MEL_HOP, SAMPLES_PER_CODE, dvae_mel

FRAMES_PER_CODE = SAMPLES_PER_CODE // MEL_HOP
MEL_PER_CODE = FRAMES_PER_CODE * MEL_BANDS
AT_ONCE = 25
SILENCE = "silence.npz"
# Silent codes on either side of the one that is used, so that it is not affected by an edge.
_ROUND_SILENCE = 24


def compute(speech: TeacherSpeech, dvae: Any, mel_stats: Tensor, folder: Path) -> None:
    """Writes `codes_N.npz` for every shard that has none."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in sorted({clip.shard for clip in speech.clips}):
        path = folder / f"codes_{shard:04d}.npz"
        if path.is_file():
            continue
        indices = [index for index, clip in enumerate(speech.clips) if clip.shard == shard]
        encoded = encode(speech, indices, dvae, mel_stats, AT_ONCE)
        stages.save_arrays(
            path,
            codes=np.concatenate([codes for codes, _ in encoded]),
            mels=np.concatenate([mel for _, mel in encoded]),
            counts=np.array([len(codes) for codes, _ in encoded]),
        )
        print(f"codes of shard {shard}", flush=True)
    code, mel = silent(dvae, mel_stats)
    np.savez(folder / SILENCE, code=code, mel=mel)


@torch.inference_mode()
def silent(dvae: Any, mel_stats: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The code of silence, int16 [], and its mel frames, float16 [320]."""
    wave = torch.zeros(1, (2 * _ROUND_SILENCE + 1) * SAMPLES_PER_CODE)
    mels = dvae_mel(wave, mel_stats)
    codes = dvae.get_codebook_indices(mels.to(next(dvae.parameters()).device)).cpu()
    first = _ROUND_SILENCE * FRAMES_PER_CODE
    frames = mels[0, :, first : first + FRAMES_PER_CODE].T.reshape(MEL_PER_CODE)
    return codes[0, _ROUND_SILENCE].numpy().astype(np.int16), frames.numpy().astype(np.float16)


@torch.inference_mode()
def encode(
    speech: TeacherSpeech, indices: Sequence[int], dvae: Any, mel_stats: Tensor, at_once: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Clips -> (codes [n] int16, mels [n, 320] float16) each, n = ceil(samples / 1024).

    Frame `f` of code `c` starts at column 80 f of row c. Silence is appended, as in training.
    """
    encoded = []
    for start in range(0, len(indices), at_once):
        waves = [speech.at(index, CODE_RATE) for index in indices[start : start + at_once]]
        counts = [-(-len(wave) // SAMPLES_PER_CODE) for wave in waves]
        longest = max(counts) * SAMPLES_PER_CODE
        mels = dvae_mel(
            torch.stack([F.pad(wave, (0, longest - len(wave))) for wave in waves]), mel_stats
        )
        codes = dvae.get_codebook_indices(mels.to(next(dvae.parameters()).device)).cpu()
        framed = mels[:, :, : max(counts) * FRAMES_PER_CODE].transpose(1, 2)
        rows = framed.reshape(len(waves), -1, MEL_PER_CODE)
        encoded += [
            (code[:count].numpy().astype(np.int16), row[:count].numpy().astype(np.float16))
            for code, row, count in zip(codes, rows, counts, strict=True)
        ]
    return encoded


class Targets:
    """The targets of clips, in their order.

    Args:
        clips, tokens: Each clip, and the ids of its text.
        encoded: Codes [n] and mel frames [n, 320], of one clip or of several joined.
        counts: How many codes each clip has.
        silence: The code of a pause between two clips, and its mel frames [320].
    """

    space = CHARACTERS.index("[SPACE]")

    def __init__(
        self,
        clips: list[TeacherClip],
        tokens: list[Tensor],
        encoded: Sequence[tuple[np.ndarray, np.ndarray]],
        counts: np.ndarray,
        silence: tuple[Tensor, Tensor],
    ) -> None:
        self.clips, self.tokens, self.counts, self.silence = clips, tokens, counts, silence
        self._codes = np.concatenate([codes for codes, _ in encoded])
        self._mels = np.concatenate([mels for _, mels in encoded])
        self._starts = np.concatenate([[0], np.cumsum(counts)])

    @staticmethod
    def read(speech: TeacherSpeech, folder: Path) -> "Targets":
        """Reads the targets of all clips, as `compute` wrote them."""
        encoded, counts = [], []
        for path in sorted(folder.glob("codes_*.npz")):
            with np.load(path) as arrays:
                encoded.append((arrays["codes"], arrays["mels"]))
                counts.append(arrays["counts"])
        all_counts = np.concatenate(counts)
        clips = speech.clips[: len(all_counts)]
        with np.load(folder / SILENCE) as arrays:
            silence = (
                torch.tensor(int(arrays["code"])),
                torch.from_numpy(arrays["mel"].astype(np.float32)),
            )
        tokens = [torch.tensor(_ids(clip.text)) for clip in clips]
        return Targets(clips, tokens, encoded, all_counts, silence)

    def codes(self, index: int) -> Tensor:
        """The codes [n] of a clip."""
        return torch.from_numpy(self._codes[self._span(index)].astype(np.int64))

    def mels(self, index: int) -> Tensor:
        """The mel frames [n, 320] of its codes."""
        return torch.from_numpy(self._mels[self._span(index)].astype(np.float32))

    def _span(self, index: int) -> slice:
        return slice(int(self._starts[index]), int(self._starts[index + 1]))


def _ids(text: str) -> list[int]:
    """The ids that `xtts.text.tokenizer.Tokenizer` returns for a sentence without numbers, computed
    much faster.

    A test compares the two.
    """
    from xtts.text.phonemes import to_phones

    ids = {token: number for number, token in enumerate(CHARACTERS)}
    ids[" "] = ids["[SPACE]"]
    return [ids["[en]"], *(ids[phone] for phone in to_phones(text))]
