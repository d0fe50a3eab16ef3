"""Learns the decoder for each epoch's sample, from the latents of that epoch.

Training moves the GPT's latents away from those that the base's decoder knows. With that decoder,
samples of later epochs sound worse than the weights are. So before an epoch speaks, its decoder is
trained on the person's clips for a small part of the epoch's time, starting from the decoder of the
epoch before.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from machine.devices.cuda_errors import GpuLost
from machine.storage.atomic import Written
from machine.storage.hashes import sha256_of
from train.dataset.dataset import Clip
from xtts.voices import learned_decoder
from xtts.voices.learned_decoder import LearnedDecoder, learned_for
from xtts.voices.run_folder import RunFolder
from xtts.workers.decoder_learning import STEPS
from xtts.workers.requests import DecoderLearned, LearnDecoderRequest, TranscribedClip, TunedVoice

log = logging.getLogger("train")

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


class EpochDecoders:
    """Learns the decoder of one epoch after another. clips: of the person, to learn from;
    reference: the recording with the speaker embedding of samples."""

    def __init__(self, run: RunFolder, clips: Sequence[TranscribedClip], reference: Path) -> None:
        self._run = run
        self._clips = clips
        self._reference = reference
        self.step_seconds = 0.0  # of the last decoder; 0 until one was learned

    def learn(
        self,
        ask: Callable[[LearnDecoderRequest], DecoderLearned],
        epoch: int,
        checkpoint: Path,
        sha256: str,
        seconds: float,
    ) -> None:
        """Learns and writes the decoder of an epoch. ask: runs a request where samples are spoken;
        seconds: the training time of the epoch. A failure is only logged, except GpuLost."""
        tensors = self._run.decoder_path(epoch)
        candidate = tensors.with_stem(f"unjudged_{tensors.stem}")
        try:
            learned_decoder.remove(tensors)
            result = ask(
                LearnDecoderRequest(
                    clips=self._of_epoch(epoch),
                    voice=TunedVoice(self._reference, checkpoint),
                    out=candidate,
                    steps=STEPS,
                    budget_seconds=min(MOST_SECONDS, max(FEWEST_SECONDS, SHARE_OF_EPOCH * seconds)),
                    start=self._before(epoch),
                )
            )
            self.step_seconds = result.step_seconds or self.step_seconds
            if result.steps and result.distance_after < result.distance_before:
                os.replace(candidate, tensors)
                written = Written(sha256_of(tensors), tensors.stat().st_size)
                learned_decoder.write(tensors, _record(epoch, sha256, result, written))
                log.info(
                    "Decoder of epoch %d: %d steps in %.1f s, spectral distance %.3f to %.3f.",
                    epoch, result.steps, result.seconds, result.distance_before,
                    result.distance_after,
                )  # fmt: skip
        except GpuLost:
            raise
        except Exception as error:
            log.warning("Epoch %d speaks with the base's decoder: %s", epoch, error)
        finally:
            with contextlib.suppress(OSError):
                candidate.unlink(missing_ok=True)

    def _of_epoch(self, epoch: int) -> tuple[TranscribedClip, ...]:
        first = epoch * CLIPS_AN_EPOCH
        count = min(CLIPS_AN_EPOCH, len(self._clips))
        return tuple(self._clips[(first + i) % len(self._clips)] for i in range(count))

    def _before(self, epoch: int) -> Path | None:
        """The decoder of the newest earlier epoch; None starts from the base's decoder."""
        for earlier in sorted((one for one in self._run.epochs() if one < epoch), reverse=True):
            if (learned := learned_for(self._run, self._run.checkpoint_path(earlier))) is not None:
                return learned
        return None


def _record(epoch: int, sha256: str, result: DecoderLearned, written: Written) -> LearnedDecoder:
    return LearnedDecoder(
        epoch, 1.0, sha256, result.distance_before, result.distance_after, result.clips,
        result.steps, file=written,
    )  # fmt: skip
