"""Trains a decoder for given weights, and keeps it if it is better than the base's.

With the base's decoder, a new person sounds like one of its training speakers
(`xtts.workers.decoder_learning`). So before an epoch speaks, the decoder takes some steps on the
person's clips, continuing from the state of the epoch before. When the run ends, the decoder for
the base's weights (`learn_for_base`) continues from the newest state.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from machine.devices.recovery import GpuLost
from machine.storage.checksums import sha256_of, zip_fault
from machine.storage.files import Written, crash_point
from train import defaults
from train.dataset.dataset import Clip
from xtts.model.config import DecoderSteps
from xtts.voices import learned_decoder
from xtts.voices.evaluation_file import BASE_WEIGHTS, weights_of_epoch
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.voices.run_folder import RunFolder
from xtts.workers.decoder_schedule import DEFAULT_STEPS, steps_for, steps_until
from xtts.workers.requests import DecoderLearned, LearnDecoderRequest, TranscribedClip, TunedVoice

log = logging.getLogger("train")

Ask = Callable[[LearnDecoderRequest], DecoderLearned]


def clips_to_learn_from(clips: Sequence[Clip]) -> list[Clip]:
    """At most `DECODER_CLIPS` of the person's clips, chosen by content, so that names and order do
    not matter."""
    return sorted(clips, key=lambda clip: clip.sha256)[: defaults.DECODER_CLIPS]


def minutes_of(clips: Sequence[Clip]) -> float:
    """The length of clips in minutes, which decides the number of steps."""
    return sum(clip.seconds for clip in clips) / 60


def request_for(
    clips: Sequence[Clip],
    voice: TunedVoice,
    *,
    steps: int | None,
    min_steps: int = 0,
    budget_seconds: float | None = None,
    state: Path | None = None,
) -> LearnDecoderRequest:
    """A request to train on these clips, as `LearnDecoderRequest`; `learn_decoder` sets the files."""
    transcribed = tuple(TranscribedClip(clip.path, clip.text, clip.language) for clip in clips)
    return LearnDecoderRequest(
        transcribed,
        voice,
        Path(),
        steps=steps,
        min_steps=min_steps,
        budget_seconds=budget_seconds,
        state=state,
    )


def learn_decoder(
    ask: Ask,
    tensors: Path,
    identity: Mapping[str, Any],
    request: LearnDecoderRequest,
    *,
    state: Path | None = None,
    judge: Callable[[LearnedDecoder, Path], LearnedDecoder] = lambda learned, _: learned,
    subject: str = "",
    fallback: str = "the base's decoder",
) -> tuple[DecoderLearned, LearnedDecoder | None]:
    """Trains a decoder. Writes its record, the state to continue from and, if the decoder is better
    than the base's, its tensors. Returns the result and the record.

    After an error, the earlier files stay. They also stay if the time limit ended before the first
    step; then the record is None.

    Args:
        ask: runs the request where samples are spoken.
        tensors: the decoder's file.
        identity: `Verdict.weights`, and further fields of the record.
        request: of `request_for`.
        state: the file for the state; None keeps none.
        judge: adds results to the record of a decoder that is closer to the person's clips; its
            second argument is the file with the tensors.
        subject: begins the log line.
        fallback: the decoder that speaks if this one is not better, for the log.

    Raises:
        WorkerFailed, GpuLost, DiskFull, WriteError
    """
    with _drafts(tensors, state) as (draft, state_draft):
        result = ask(replace(request, out=draft, state_out=state_draft))
        if request.budget_seconds is not None and not result.new_steps:
            return result, None
        learned = LearnedDecoder(
            **identity,
            distance_before=result.distance_before,
            distance_after=result.distance_after,
            clips=result.clips,
            steps=result.steps,
        )
        if learned.is_better:
            learned = judge(learned, draft)
        crash_point("before decoder")
        learned_decoder.remove(tensors)
        if state is not None and state_draft is not None:
            os.replace(state_draft, state)
        crash_point("after decoder state")
        if learned.is_better:
            learned = _put_in_use(learned, draft, tensors)
    learned_decoder.write(tensors, learned)
    log.info("%s%s", f"{subject}: " if subject else "", _log_sentence(learned, result, fallback))
    return result, learned


@contextlib.contextmanager
def _drafts(tensors: Path, state: Path | None) -> Iterator[tuple[Path, Path | None]]:
    """The files for a decoder and its state until it is judged. No other code reads them, and those
    that are left are deleted."""
    drafts = (
        tensors.with_stem(f"unjudged_{tensors.stem}"),
        state and state.with_stem(f"unjudged_{state.stem}"),
    )
    try:
        yield drafts
    finally:
        for path in filter(None, drafts):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _put_in_use(learned: LearnedDecoder, draft: Path, tensors: Path) -> LearnedDecoder:
    """Renames the draft to the decoder's file; returns the record that names this file."""
    os.replace(draft, tensors)
    return replace(learned, file=Written(sha256_of(tensors), tensors.stat().st_size))


def newest_state(run: RunFolder, before: int | None = None) -> tuple[int, Path | None]:
    """The newest epoch whose decoder was trained, before a given one, and its state. (0, None)
    stands for the base's decoder. A damaged state is logged and skipped."""
    for epoch in reversed(run.decoder_state_epochs()):
        path = run.decoder_state_path(epoch)
        if before is not None and epoch >= before:
            continue
        if (fault := zip_fault(path)) is None:
            return epoch, path
        log.warning("%s The decoder continues from an earlier one.", fault)
    return 0, None


def learn_for_base(
    run: RunFolder, ask: Ask, clips: Sequence[Clip], voice: TunedVoice, steps: DecoderSteps = DEFAULT_STEPS
) -> LearnedDecoder:
    """The decoder for the base's weights, trained unless it already continues the newest epoch's.

    It takes all steps that the minutes of sound allow, and at least a quarter of them, because the
    epochs' decoders have learned from other latents. Raises as `learn_decoder`.

    Args:
        clips: the person's training clips.
        voice: with the base's weights.
        steps: how many, by the minutes of clips.
    """
    tensors, (newest_epoch, state) = run.decoder_path(0), newest_state(run)
    record = learned_decoder.read(tensors)
    if record is not None and record.after_epoch == newest_epoch:
        return record
    decoder_clips = clips_to_learn_from(clips)
    minutes = minutes_of(decoder_clips)
    request = request_for(
        decoder_clips,
        voice,
        steps=steps_for(minutes, steps),
        min_steps=steps_until(1, minutes, steps),
        state=state,
    )
    _, record = learn_decoder(
        ask,
        tensors,
        {**BASE_WEIGHTS, "after_epoch": newest_epoch},
        request,
        state=run.decoder_state_path(0),
        subject="Untrained model",
    )
    assert record is not None  # it has no time limit
    return record


def weaken_for_base(
    run: RunFolder, ask: Ask, clips: Sequence[Clip], voice: TunedVoice, strength: float
) -> LearnedDecoder | None:
    """Writes the decoder for the base's weights again, at this strength and without another step. None
    if there is none, or its state is gone. Raises as `learn_decoder`.

    Args:
        clips: the person's training clips.
        voice: with the base's weights.
        strength: as in `LearnedDecoder`.
    """
    tensors, state = run.decoder_path(0), run.decoder_state_path(0)
    record = learned_decoder.read(tensors)
    if record is None or not state.is_file():
        return None
    request = request_for(clips_to_learn_from(clips), voice, steps=record.steps, state=state)
    identity = {**BASE_WEIGHTS, "after_epoch": record.after_epoch, "strength": strength}
    subject = f"Untrained model, {strength:.0%} of its decoder"
    _, weaker = learn_decoder(ask, tensors, identity, replace(request, strength=strength), subject=subject)
    return weaker


def withdraw_decoder(tensors: Path) -> bool:
    """Deletes a decoder that the judges ruled out; its record stays. Returns whether it was in use."""
    record = learned_decoder.read(tensors)
    if record is None or record.file is None:
        return False
    learned_decoder.write(tensors, replace(record, file=None))
    tensors.unlink(missing_ok=True)
    return True


def _log_sentence(learned: LearnedDecoder, result: DecoderLearned, fallback: str) -> str:
    distance = f"{learned.distance_before:.3f} to {learned.distance_after:.3f}"
    if learned.distance_after >= learned.distance_before:
        return (
            f"{fallback.capitalize()} stays: the trained one is not closer to the person after "
            f"{learned.steps} steps (spectral distance {distance})."
        )
    sentence = (
        f"Decoder trained on {learned.clips} clips in {result.seconds:.0f} s, {learned.steps} steps so "
        f"far. Spectral distance of clips outside its training set: {distance}."
    )
    if result.pitch_octaves:
        sentence += f" The pitch of free speech moved by {100 * (2**result.pitch_octaves - 1):+.0f} %."
    changes = (
        ("Word error rate", learned.more_word_errors, "{:+.0%}"),
        ("Voice similarity to the reference", learned.closer_voice, "{:+.2f}"),
        ("Naturalness", learned.more_natural, "{:+.2f}"),
    )
    for name, change, form in changes:
        if change is not None:
            sentence += f" {name} with it: {form.format(change)}."
    if not learned.is_better:
        faults = (
            (learned.harder, "is harder to understand"),
            (learned.less_alike, "sounds less like the reference"),
            (learned.less_natural, "sounds less natural"),
        )
        reasons = " and ".join(fault for holds, fault in faults if holds)
        sentence += f" It {reasons}, so {fallback} stays."
    return sentence


def learn_for_epoch(
    run: RunFolder,
    ask: Ask,
    clips: Sequence[Clip],
    reference: Path,
    epoch: int,
    checkpoint: Path,
    sha256: str,
    steps: DecoderSteps = DEFAULT_STEPS,
) -> float:
    """Trains and writes the decoder of an epoch, unless it exists. Returns the seconds of a step; 0
    if unknown. A failure is only logged, except GpuLost.

    Args:
        clips: the person's training clips.
        reference: the recording that samples are spoken from.
        checkpoint, sha256: the epoch's file, and its hash.
        steps: how many, by the minutes of clips.
    """
    tensors, weights = run.decoder_path(epoch), weights_of_epoch(epoch, sha256)
    try:
        record = learned_decoder.read(tensors)
        if record is not None and record.weights == weights:
            return 0.0
        learned_decoder.remove(tensors)
        decoder_clips = clips_to_learn_from(clips)
        request = request_for(
            decoder_clips,
            TunedVoice(reference, checkpoint),
            steps=steps_until(epoch, minutes_of(decoder_clips), steps),
            state=newest_state(run, epoch)[1],
        )
        result, _ = learn_decoder(
            ask, tensors, weights, request, state=run.decoder_state_path(epoch), subject=f"Epoch {epoch}"
        )
        return result.step_seconds
    except GpuLost:
        raise
    except Exception as error:
        log.warning("Epoch %d speaks with the base's decoder: %s", epoch, error)
        return 0.0
