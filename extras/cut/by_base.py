"""Cuts with a text in any language of the base model, whose GPT aligns the text with breaths."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from extras.cut.base_alignment import BaseScorer, Breath, ScoringBase, SpanMatch, SpanScore, best_matches
from extras.cut.cutter import CutJob, CutRecording, CutResult, clipping_warning, cut_recording, measure_all
from extras.cut.journal import RecognitionJournal
from extras.cut.manuscript import CLAUSE_END, Manuscript, TextUnit
from extras.cut.planning import PlacedUnit
from extras.cut.profile import SoundProfile, sounding_spans
from extras.cut.recordings import CuttingError, SourceRecording, check_unchanged
from extras.cut.speech_detection import VAD_FRAME_SECONDS, speech_spans
from extras.cut.word_alignment import MAX_GAP_SECONDS
from machine.devices.selection import choose_device, look_at_machine
from train.base_model import chosen_base
from train.progress import Progress
from train.settings import TrainSettings
from xtts.model.config import ModelConfig
from xtts.text.languages import short_code

log = logging.getLogger("train")

# How much likelier a span must be with its text, in nats per code: on average, and over any 0.75 s
# of it. Set by hand and checked on thirty sentences of benchmarks/choosing.txt
# (docs/develop/log.md).
MIN_NATS_PER_CODE, MIN_WEAKEST_NATS_PER_CODE = 0.8, -1.0
# Sound with a smaller share of speech is music, noise or breathing.
_MIN_SPEECH_SHARE = 0.3
# Longer sentences are split at their commas.
_MAX_PIECE_SECONDS = 8.0
# The shortest and the longest usual duration of a character: fast Spanish and Chinese.
_MIN_SECONDS_PER_CHARACTER, _MAX_SECONDS_PER_CHARACTER = 0.04, 0.35
# If a smaller share of the text matches, it is the text of another recording.
_MIN_MATCHED_SHARE = 0.2


def load_base(settings: TrainSettings, language: str) -> ScoringBase:
    """Loads BASE_MODEL on DEVICE. Raises CuttingError for a language that it does not speak, and
    the errors of `chosen_base` and `choose_device`."""
    folder = chosen_base(settings)
    languages = ModelConfig.read(folder).languages
    if short_code(language) not in map(short_code, languages):
        raise CuttingError(
            f"A text without times is aligned by the base model, and BASE_MODEL="
            f"{settings.base_model} speaks {', '.join(languages)}, not {language}. Use a base that "
            "does (--base-model xtts_v2), give a text with times (srt, vtt, lab, TextGrid), or "
            "cut without --text."
        )
    device = choose_device(look_at_machine(), settings.device)
    log.info(
        "The text is aligned by the base model %s on %s (%s).",
        settings.base_model,
        device.value,
        device.reason,
    )
    return ScoringBase.load(folder, device.value)


def cut_by_base(job: CutJob, text: Manuscript, base: ScoringBase, language: str) -> CutResult:
    """Aligns a text without times. Raises CuttingError, also for the text of another recording."""
    profiles = list(measure_all(job))
    seconds_per_character = _seconds_per_character(text, profiles)
    pieces = pieces_of(text, round(_MAX_PIECE_SECONDS / seconds_per_character))
    cuts, placed, first_piece = list[CutRecording](), set[int](), 0
    breaths_of_each = [breaths_of(profile) for profile in profiles]
    with Progress("Aligning", sum(map(len, breaths_of_each)), "breaths") as progress:
        for recording, profile, breaths in zip(job.recordings, profiles, breaths_of_each):
            matches, pending = list[SpanMatch](), pieces[first_piece:]
            if breaths and pending:
                latents = base.speaker_latents(recording, speech_spans(profile.speech))
                codes = base.encode(recording)
                check_unchanged(recording)
                if latents is not None:
                    texts = [piece.text for piece in pending]
                    scorer = BaseScorer(base, latents, codes, breaths, texts, language, seconds_per_character)
                    done_before = progress.done
                    score = _with_journal(scorer, job.journal, recording.name, progress)
                    matches = likely_matches(
                        best_matches(breaths, len(texts), score, scorer.may_join), pending
                    )
                    progress.add(done_before + len(breaths) - progress.done)
            units = list(_placed_units(matches, pending, breaths, recording.seconds))
            cuts.append(cut_recording(recording, profile, units))
            for match in matches:
                placed |= {first_piece + piece for piece in match.pieces}
            first_piece += matches[-1].pieces.stop if matches else 0
    _refuse_other_text(placed, pieces, job.recordings, clipping_warning(profiles))
    return CutResult(cuts, _unheard_sentences(placed, pieces, text))


def _with_journal(
    scorer: BaseScorer, journal: RecognitionJournal, name: str, progress: Progress
) -> Callable[[int, Sequence[range]], list[list[SpanScore]]]:
    """A `score` for `best_matches` that asks the model only for scores that the journal lacks.
    name: of the recording."""
    done_before = progress.done

    def score(first_breath: int, groups: Sequence[range]) -> list[list[SpanScore]]:
        if done_before + first_breath > progress.done:
            progress.add(done_before + first_breath - progress.done)
        spans = ",".join(f"{group.start}-{group.stop}" for group in groups)
        key = f"{name}|{first_breath}|{spans}"
        scores = journal.get(key)
        if scores is None:
            scores = scorer.score(first_breath, groups)
            journal.put(key, scores)
        return [[SpanScore(*fields) for fields in row] for row in scores]

    return score


def likely_matches(matches: Sequence[SpanMatch], pieces: Sequence[TextUnit]) -> list[SpanMatch]:
    """The matches that are likely enough. One that begins or ends inside a sentence counts only if
    its neighbours match the other parts of that sentence. Pure."""
    likely = [
        match
        for match in matches
        if match.nats_per_code >= MIN_NATS_PER_CODE and match.score.weakest >= MIN_WEAKEST_NATS_PER_CODE
    ]
    while True:
        complete = [
            match
            for index, match in enumerate(likely)
            if _is_complete(match, likely[index - 1 : index], likely[index + 1 : index + 2], pieces)
        ]
        if len(complete) == len(likely):
            return complete
        likely = complete


def _is_complete(
    match: SpanMatch, before: Sequence[SpanMatch], after: Sequence[SpanMatch], pieces: Sequence[TextUnit]
) -> bool:
    """Whether a match begins and ends with sentences, or directly beside its neighbours. before,
    after: the neighbour on this side, if there is one."""
    start, stop = match.pieces.start, match.pieces.stop
    begins = start == 0 or pieces[start - 1].sentence != pieces[start].sentence
    ends = stop == len(pieces) or pieces[stop].sentence != pieces[stop - 1].sentence
    return (begins or any(match.follows(neighbour) for neighbour in before)) and (
        ends or any(neighbour.follows(match) for neighbour in after)
    )


def pieces_of(text: Manuscript, max_characters: int) -> list[TextUnit]:
    """The pieces of a text that are aligned: its sentences, of which long ones are split at the
    ends of clauses. Pure."""
    pieces, pending = list[TextUnit](), list[TextUnit]()
    for number, unit in enumerate(text.units):
        pending.append(unit)
        is_long = len(text.sentences[unit.sentence]) > max_characters
        is_last = number + 1 == len(text.units) or text.units[number + 1].sentence != unit.sentence
        if is_last or (is_long and unit.ends == CLAUSE_END):
            piece_text = " ".join(part.text for part in pending)
            pieces.append(replace(unit, text=piece_text, first_word=pending[0].first_word))
            pending = []
    return pieces


def breaths_of(profile: SoundProfile) -> list[Breath]:
    """The sounds between two pauses that are at least partly speech."""
    breaths = list[Breath]()
    for start, end in sounding_spans(profile):
        frames = profile.speech[int(start / VAD_FRAME_SECONDS) : int(np.ceil(end / VAD_FRAME_SECONDS))]
        if len(frames) and float((frames > 0.5).mean()) >= _MIN_SPEECH_SHARE:
            breaths.append(Breath(start, end))
    return breaths


def _seconds_per_character(text: Manuscript, profiles: Sequence[SoundProfile]) -> float:
    """The pace, if all speech is the text and all of the text is spoken."""
    characters = sum(map(len, text.sentences))
    seconds = sum(end - start for profile in profiles for start, end in breaths_of(profile))
    pace = seconds / max(characters, 1)
    return min(max(pace, _MIN_SECONDS_PER_CHARACTER), _MAX_SECONDS_PER_CHARACTER)


def _placed_units(
    matches: Sequence[SpanMatch], pieces: Sequence[TextUnit], breaths: Sequence[Breath], seconds: float
) -> Iterator[PlacedUnit]:
    """The units of matches, with the speech around each. seconds: the length of the recording."""
    for index, match in enumerate(matches):
        following = matches[index + 1] if index + 1 < len(matches) else None
        first, stop = match.breaths.start, match.breaths.stop
        start, end = breaths[first].start, breaths[stop - 1].end
        after = breaths[stop].start if stop < len(breaths) else seconds
        is_followed = following is not None and following.follows(match)
        yield PlacedUnit(
            " ".join(pieces[piece].text for piece in match.pieces),
            start,
            end,
            pieces[match.pieces.stop - 1].ends,
            is_joined=is_followed and after - end <= MAX_GAP_SECONDS,
            speech_before=breaths[first - 1].end if first else 0.0,
            speech_after=after,
        )


def _unheard_sentences(placed: set[int], pieces: Sequence[TextUnit], text: Manuscript) -> list[int]:
    """The numbers of the sentences of which less than half was matched."""
    matched_characters = [0] * len(text.sentences)
    for number in placed:
        matched_characters[pieces[number].sentence] += len(pieces[number].text)
    return [
        number
        for number, sentence in enumerate(text.sentences)
        if 2 * matched_characters[number] < len(sentence)
    ]


def _refuse_other_text(
    placed: set[int], pieces: Sequence[TextUnit], recordings: Sequence[SourceRecording], cause: str
) -> None:
    """Raises CuttingError if too little of the text matched. cause: an explanation other than a
    wrong text; "" if there is none."""
    matched = sum(len(pieces[number].text) for number in placed)
    written = sum(len(piece.text) for piece in pieces)
    if matched < _MIN_MATCHED_SHARE * written:
        cause = cause or " Is it the text of another recording, in another order, or in another language?"
        raise CuttingError(
            f"The text does not fit {recordings[0].path}: {matched:,} of its {written:,} characters "
            f"were found in their order.{cause} Nothing was written."
        )
