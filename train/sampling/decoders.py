"""Trains a decoder for given weights, and keeps it if it is better than the base's.

With the base's decoder, a new person sounds like one of its training speakers
(`xtts.workers.decoder_learning`). So before an epoch speaks, its decoder is trained on the person's
clips for a small part of the epoch's time, starting from the decoder of the epoch before.
`train.evaluation.conclusion` trains the one for the best weights.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from machine.devices.recovery import GpuLost
from machine.storage.atomic import Written, crash_point
from machine.storage.hashes import sha256_of
from train.dataset.dataset import Clip
from xtts.voices import learned_decoder
from xtts.voices.learned_decoder import LearnedDecoder, learned_for
from xtts.voices.run_folder import RunFolder
from xtts.workers.decoder_learning import STEPS
from xtts.workers.requests import DecoderLearned, LearnDecoderRequest, TranscribedClip, TunedVoice

log = logging.getLogger("train")

Ask = Callable[[LearnDecoderRequest], DecoderLearned]

# The share of an epoch's time for its decoder, and its limits in seconds. The lower one lets a
# small model take a dozen steps.
SHARE_OF_EPOCH, FEWEST_SECONDS, MOST_SECONDS = 0.1, 3.0, 300.0
# Each epoch takes other clips; each clip needs a pass of the GPT.
CLIPS_AN_EPOCH = 9


def clips_to_learn_from(clips: Sequence[Clip], most: int) -> tuple[TranscribedClip, ...]:
    """At most `most` of the person's clips, chosen by content, so that names and order do not
    matter."""
    taken = sorted(clips, key=lambda clip: clip.sha256)[:most]
    return tuple(TranscribedClip(one.path, one.text, one.language) for one in taken)


def learn(
    ask: Ask,
    tensors: Path,
    weights: Mapping[str, Any],
    clips: tuple[TranscribedClip, ...],
    voice: TunedVoice,
    seconds: float,
    *,
    start: Path | None = None,
    judge: Callable[[LearnedDecoder, Path], LearnedDecoder] = lambda learned, _: learned,
    whose: str = "",
) -> DecoderLearned:
    """Trains a decoder. Writes its record and, if it is better than the base's, its tensors.

    Without a step or after an error, the last outcome stays.

    Args:
        ask: runs the request where samples are spoken.
        tensors: the decoder's file.
        weights: as in `Verdict.weights`.
        seconds: the time limit.
        start: the decoder to start from; None for the base's.
        judge: adds results to the record of a decoder that is closer to the person's clips. Its
            tensors are in the given file.
        whose: begins the log line.

    Raises:
        WorkerFailed, GpuLost, DiskFull, WriteError
    """
    # Nothing else reads this name, so nothing uses the decoder before it is judged.
    out = tensors.with_stem(f"unjudged_{tensors.stem}")
    try:
        result = ask(LearnDecoderRequest(clips, voice, out, STEPS, seconds, start=start))
        if not result.steps:
            return result
        learned = LearnedDecoder(
            **weights,
            distance_before=result.distance_before,
            distance_after=result.distance_after,
            clips=result.clips,
            steps=result.steps,
        )
        learned = judge(learned, out) if learned.better else learned
        crash_point("before decoder")
        learned_decoder.remove(tensors)
        if learned.better:
            os.replace(out, tensors)
            written = Written(sha256_of(tensors), tensors.stat().st_size)
            learned = replace(learned, file=written)
        learned_decoder.write(tensors, learned)
        log.info("%s%s", f"{whose}: " if whose else "", _sentence(learned, result.seconds))
        return result
    finally:
        with contextlib.suppress(OSError):
            out.unlink(missing_ok=True)


def _sentence(learned: LearnedDecoder, seconds: float) -> str:
    distance = f"{learned.distance_before:.3f} to {learned.distance_after:.3f}"
    if learned.distance_after >= learned.distance_before:
        return (
            "The base's decoder stays: the trained one is not closer to the person (spectral "
            f"distance {distance})."
        )
    sentence = (
        f"Decoder trained on {learned.clips} clips in {seconds:.0f} s. Spectral distance of clips "
        f"outside its training set: {distance}."
    )
    figures = (
        ("Word error rate", learned.more_word_errors, "{:+.0%}"),
        ("Voice similarity to the reference", learned.closer_voice, "{:+.2f}"),
        ("Naturalness", learned.more_natural, "{:+.2f}"),
    )
    for name, figure, form in figures:
        if figure is not None:
            sentence += f" {name} with it: {form.format(figure)}."
    if not learned.better:
        faults = (
            (learned.harder, "is harder to understand"),
            (learned.less_alike, "sounds less like the reference"),
            (learned.less_natural, "sounds less natural"),
        )
        said = " and ".join(fault for holds, fault in faults if holds)
        sentence += f" It {said}, so the base's decoder stays."
    return sentence


class EpochDecoders:
    """Trains the decoder of one epoch after another.

    clips: the person's, to learn from; reference: the recording with the speaker embedding of
    samples. step_seconds: of the last decoder; 0 until one was trained.
    """

    def __init__(self, run: RunFolder, clips: Sequence[TranscribedClip], reference: Path) -> None:
        self._run = run
        self._clips = clips
        self._reference = reference
        self.step_seconds = 0.0

    def learn(self, ask: Ask, epoch: int, checkpoint: Path, sha256: str, seconds: float) -> None:
        """Trains and writes the decoder of an epoch. seconds: the training time of the epoch. A
        failure is only logged, except GpuLost."""
        tensors = self._run.decoder_path(epoch)
        budget = min(MOST_SECONDS, max(FEWEST_SECONDS, SHARE_OF_EPOCH * seconds))
        weights = {"epoch": epoch, "share": 1.0, "checkpoint_sha256": sha256}
        try:
            learned_decoder.remove(tensors)
            result = learn(
                ask, tensors, weights, self._of_epoch(epoch),
                TunedVoice(self._reference, checkpoint), budget,
                start=self._before(epoch), whose=f"Epoch {epoch}",
            )  # fmt: skip
            self.step_seconds = result.step_seconds or self.step_seconds
        except GpuLost:
            raise
        except Exception as error:
            log.warning("Epoch %d speaks with the base's decoder: %s", epoch, error)

    def _of_epoch(self, epoch: int) -> tuple[TranscribedClip, ...]:
        first = epoch * CLIPS_AN_EPOCH
        count = min(CLIPS_AN_EPOCH, len(self._clips))
        return tuple(self._clips[(first + i) % len(self._clips)] for i in range(count))

    def _before(self, epoch: int) -> Path | None:
        """The decoder of the newest earlier epoch; None starts from the base's decoder."""
        earlier = (one for one in reversed(self._run.epochs()) if one < epoch)
        found = (learned_for(self._run, self._run.checkpoint_path(one)) for one in earlier)
        return next(filter(None, found), None)
