"""Keeps the decoder of the best weights, and trains it for longer (`train learn-decoder`)."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from machine.storage.checksums import zip_fault
from machine.storage.files import crash_point, replace_file
from train.evaluation import judges
from train.evaluation.evaluator import Evaluator
from train.evaluation.floors import PersonFigures
from train.evaluation.judges import NATURALNESS, VOICE, WORD_ERRORS, is_less_natural
from train.evaluation.plan import VoiceScale
from train.progress import Progress
from train.sampling.decoders import clips_to_learn_from, learn_decoder, newest_state, request_for
from xtts.voices import learned_decoder
from xtts.voices.evaluation_file import MeanInterval, Verdict
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.voices.run_folder import RunError, RunFolder
from xtts.workers.requests import DecoderLearned, LearnDecoderRequest


def keep_best_decoder(evaluator: Evaluator, verdict: Verdict) -> bool:
    """Keeps the verdict's decoder as best_decoder.safetensors, and no other. Returns whether there is one.

    A decoder that `train learn-decoder` continued from the verdict's stays, unless LEARN_DECODER
    is off. Raises DiskFull, WriteError and, if the decoder is damaged, RunError.
    """
    run, tensors = evaluator.run, evaluator.run.best_decoder
    record = learned_decoder.read(tensors)
    if record is not None and record.weights == verdict.weights:
        continued = record.continues if evaluator.plan.learns_decoder else None
        if not verdict.decoder:
            return record.file is not None
        # After a kill, a refused decoder may have a record and no tensors.
        if record.file is not None and verdict.decoder in (record.digest, continued):
            return True
    learned_decoder.remove(tensors)
    run.best_decoder_state.unlink(missing_ok=True)
    if not verdict.decoder:
        return False
    _copy_judged_decoder(run, verdict)
    return True


def _copy_judged_decoder(run: RunFolder, verdict: Verdict) -> None:
    """Writes the verdict's decoder to best_decoder.safetensors. Raises as `keep_best_decoder`."""
    source, tensors = run.decoder_path(verdict.epoch), run.best_decoder
    record = learned_decoder.read(source)
    if record is None or record.digest != verdict.decoder:
        raise RunError(f"{source}, the decoder of the best weights, is gone or damaged.")
    with source.open("rb") as file:
        replace_file(tensors, partial(shutil.copyfileobj, file))
    crash_point("before decoder record")
    learned_decoder.write(tensors, replace(record, **verdict.weights))


def learn_best_decoder(evaluator: Evaluator, verdict: Verdict, seconds: float) -> bool:
    """Trains the verdict's decoder for this time, and judges it against the base's. If it passes, it
    replaces best_decoder.safetensors; if not, the verdict's decoder is written there again.

    Returns False if there was no time for a step. Raises as `decoders.learn_decoder`, and RunError if
    the weights are gone.
    """
    run, voice = evaluator.run, evaluator.voice_of(verdict)
    clips = clips_to_learn_from(evaluator.plan.training_clips)

    def judge(record: LearnedDecoder, tensors: Path) -> LearnedDecoder:
        # Other seeds than the candidates': the weights were chosen by that speech, so it is better
        # than usual, and would be unfair to the decoder.
        count, evaluation = len(evaluator.plan.sentences), evaluator.evaluation_with_base()
        speak = partial(evaluator.speak_and_judge, count=count, evaluation=evaluation, fresh=True)
        before, after = speak(voice), speak(replace(voice, decoder=tensors))
        gaps, person = judges.differences(after, before), PersonFigures.of(evaluation)
        more_errors = gaps.get(WORD_ERRORS)
        return with_judgement(
            record,
            gaps,
            is_accent=more_errors is not None
            and person.can_explain_errors(judges.judge_mean(after, WORD_ERRORS), more_errors),
            allowed_loss=person.naturalness_below(judges.judge_mean(before, NATURALNESS)),
            scale=evaluator.person.voice_scale,
        )

    states = [run.best_decoder_state]
    if verdict.kind == "base":
        states.append(run.decoder_state_path(0))
    intact = [path for path in states if path.is_file() and zip_fault(path) is None]
    state = intact[0] if intact else newest_state(run)[1]
    request = request_for(clips, voice, steps=None, budget_seconds=seconds, state=state)
    result, record = learn_decoder(
        partial(ask_with_progress, evaluator, ""),
        run.best_decoder,
        {**verdict.weights, "continues": verdict.decoder},
        request,
        state=run.best_decoder_state,
        judge=judge,
        fallback="the decoder before it" if verdict.decoder else "the base's decoder",
    )
    if record is not None and not record.is_better and verdict.decoder:
        _copy_judged_decoder(run, verdict)
    return result.new_steps > 0


def ask_with_progress(evaluator: Evaluator, speaker: str, request: LearnDecoderRequest) -> DecoderLearned:
    """Trains a decoder and shows the progress. speaker: a further speaker of the dataset, or ""."""
    of_speaker = f" of {speaker}" if speaker else ""
    # Percent instead of steps: training may end before the last one.
    with Progress(f"Training a decoder{of_speaker}", 100, "%") as progress:
        return evaluator.sampler.ask(request, progress.reach)


def with_judgement(
    record: LearnedDecoder,
    gaps: Mapping[str, MeanInterval],
    *,
    is_accent: bool = False,
    allowed_loss: float = 0.0,
    scale: VoiceScale | None = None,
) -> LearnedDecoder:
    """The record with the judges' results. A gap counts if its interval excludes 0, as in a verdict.

    Args:
        gaps: Figures with the decoder minus those without, the voice as a cosine to the reference.
        is_accent: Whether the person's accent may explain more word errors (`can_explain_errors`).
        allowed_loss: The loss of naturalness that the person's own excuses (`naturalness_below`).
        scale: The scale of the person's voice: a nearer voice is worth a loss of naturalness.
    """
    if (words := gaps.get(WORD_ERRORS)) is not None:
        harder = words.low > 0 and not is_accent
        record = replace(record, more_word_errors=round(words.mean, 4), harder=harder)
    if (voice := gaps.get(VOICE)) is not None:
        record = replace(record, closer_voice=round(voice.mean, 4), less_alike=voice.high < 0)
    if (natural := gaps.get(NATURALNESS)) is not None:
        nearer = scale.share_of_scale(voice) if voice and scale else voice
        sounds_worse = is_less_natural(natural, nearer, allowed_loss)
        record = replace(record, more_natural=round(natural.mean, 4), less_natural=sounds_worse)
    return record
