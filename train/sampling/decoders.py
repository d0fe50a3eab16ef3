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
from xtts.voices import learned_decoder
from xtts.voices.evaluation_file import BASE_WEIGHTS, weights_of_epoch
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.voices.run_folder import RunFolder
from xtts.workers.decoder_schedule import STEPS, steps_for, steps_until
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
    """A request to train on these clips, as `LearnDecoderRequest`; `learn` sets the files."""
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


def learn(
    ask: Ask,
    tensors: Path,
    about: Mapping[str, Any],
    request: LearnDecoderRequest,
    *,
    state: Path | None = None,
    judge: Callable[[LearnedDecoder, Path], LearnedDecoder] = lambda learned, _: learned,
    whose: str = "",
    else_stays: str = "the base's decoder",
) -> tuple[DecoderLearned, LearnedDecoder | None]:
    """Trains a decoder, and returns the result and its record. Writes the record and, if it is
    better than the base's, its tensors; and the state to continue from, even if it is not.

    After an error, the last outcome stays; also without a step before the end of a time limit, and
    then the record is None.

    Args:
        ask: runs the request where samples are spoken.
        tensors: the decoder's file.
        about: `Verdict.weights`, and what else the record says.
        request: of `request_for`.
        state: the file for the state; None keeps none.
        judge: adds results to the record of a decoder that is closer to the person's clips. Its
            tensors are in the given file.
        whose: begins the log line; else_stays: what it says of a decoder that is not better.

    Raises:
        WorkerFailed, GpuLost, DiskFull, WriteError
    """
    with _drafts(tensors, state) as (draft, state_draft):
        result = ask(replace(request, out=draft, state_out=state_draft))
        if request.budget_seconds is not None and not result.new_steps:
            return result, None
        learned = LearnedDecoder(
            **about,
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
            learned = _used(learned, draft, tensors)
    learned_decoder.write(tensors, learned)
    log.info("%s%s", f"{whose}: " if whose else "", _sentence(learned, result, else_stays))
    return result, learned


@contextlib.contextmanager
def _drafts(tensors: Path, state: Path | None) -> Iterator[tuple[Path, Path | None]]:
    """The files of a decoder and its state that are not judged yet. Nothing else reads their names,
    and what remains of them is deleted."""
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


def _used(learned: LearnedDecoder, draft: Path, tensors: Path) -> LearnedDecoder:
    """Renames the draft to the decoder's file; returns the record that names this file."""
    os.replace(draft, tensors)
    return replace(learned, file=Written(sha256_of(tensors), tensors.stat().st_size))


def newest_state(run: RunFolder, before: int | None = None) -> tuple[int, Path | None]:
    """The newest epoch whose decoder was trained, before a given one, and its state. (0, None)
    begins with the base's decoder. A damaged one is left out, which is logged."""
    for epoch in reversed(run.decoder_state_epochs()):
        path = run.decoder_state_path(epoch)
        if before is not None and epoch >= before:
            continue
        if (fault := zip_fault(path)) is None:
            return epoch, path
        log.warning("%s The decoder continues from an earlier one.", fault)
    return 0, None


def learn_for_base(
    run: RunFolder, ask: Ask, clips: Sequence[Clip], voice: TunedVoice, minute_steps: float = STEPS
) -> LearnedDecoder:
    """The decoder for the base's weights, trained unless it already continues the newest epoch's:
    for all steps that the minutes of sound allow, and at least a quarter of them, because the
    epochs' decoders have heard other latents.

    clips: the person's training clips; voice: of the base's weights; minute_steps: the steps for one minute
    of clips. Raises as `learn`.
    """
    tensors, (after, state) = run.decoder_path(0), newest_state(run)
    record = learned_decoder.read(tensors)
    if record is not None and record.after_epoch == after:
        return record
    heard = clips_to_learn_from(clips)
    minutes = minutes_of(heard)
    request = request_for(
        heard,
        voice,
        steps=steps_for(minutes, minute_steps),
        min_steps=steps_until(1, minutes, minute_steps),
        state=state,
    )
    _, record = learn(
        ask,
        tensors,
        {**BASE_WEIGHTS, "after_epoch": after},
        request,
        state=run.decoder_state_path(0),
        whose="Untrained model",
    )
    assert record is not None  # it has no time limit
    return record


def leave_out(tensors: Path) -> bool:
    """Keeps a decoder from being used, because the judges were against it; its record stays.
    Whether it was used until now."""
    record = learned_decoder.read(tensors)
    if record is None or record.file is None:
        return False
    learned_decoder.write(tensors, replace(record, file=None))
    tensors.unlink(missing_ok=True)
    return True


def _sentence(learned: LearnedDecoder, result: DecoderLearned, else_stays: str) -> str:
    distance = f"{learned.distance_before:.3f} to {learned.distance_after:.3f}"
    if learned.distance_after >= learned.distance_before:
        return (
            f"{else_stays.capitalize()} stays: the trained one is not closer to the person after "
            f"{learned.steps} steps (spectral distance {distance})."
        )
    sentence = (
        f"Decoder trained on {learned.clips} clips in {result.seconds:.0f} s, {learned.steps} steps so "
        f"far. Spectral distance of clips outside its training set: {distance}."
    )
    if result.pitch_octaves:
        sentence += f" The pitch of free speech moved by {100 * (2**result.pitch_octaves - 1):+.0f} %."
    figures = (
        ("Word error rate", learned.more_word_errors, "{:+.0%}"),
        ("Voice similarity to the reference", learned.closer_voice, "{:+.2f}"),
        ("Naturalness", learned.more_natural, "{:+.2f}"),
    )
    for name, figure, form in figures:
        if figure is not None:
            sentence += f" {name} with it: {form.format(figure)}."
    if not learned.is_better:
        faults = (
            (learned.harder, "is harder to understand"),
            (learned.less_alike, "sounds less like the reference"),
            (learned.less_natural, "sounds less natural"),
        )
        holding = " and ".join(fault for holds, fault in faults if holds)
        sentence += f" It {holding}, so {else_stays} stays."
    return sentence


def learn_for_epoch(
    run: RunFolder,
    ask: Ask,
    clips: Sequence[Clip],
    reference: Path,
    epoch: int,
    checkpoint: Path,
    sha256: str,
    minute_steps: float = STEPS,
) -> float:
    """Trains and writes the decoder of an epoch, unless it exists. Returns the seconds of a step; 0
    if unknown. A failure is only logged, except GpuLost.

    clips: the person's training clips; reference: the recording with the speaker embedding of samples;
    checkpoint, sha256: of the epoch; minute_steps: the steps for one minute of clips.
    """
    tensors, weights = run.decoder_path(epoch), weights_of_epoch(epoch, sha256)
    try:
        record = learned_decoder.read(tensors)
        if record is not None and record.weights == weights:
            return 0.0
        learned_decoder.remove(tensors)
        heard = clips_to_learn_from(clips)
        request = request_for(
            heard,
            TunedVoice(reference, checkpoint),
            steps=steps_until(epoch, minutes_of(heard), minute_steps),
            state=newest_state(run, epoch)[1],
        )
        result, _ = learn(
            ask, tensors, weights, request, state=run.decoder_state_path(epoch), whose=f"Epoch {epoch}"
        )
        return result.step_seconds
    except GpuLost:
        raise
    except Exception as error:
        log.warning("Epoch %d speaks with the base's decoder: %s", epoch, error)
        return 0.0
