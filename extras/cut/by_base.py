"""Cuts with a text in any language of the base model, whose GPT aligns the text with breaths."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from extras.cut.base_alignment import BaseScorer, Breath, ScoringBase, SpanMatch, SpanScore, best_matches
from extras.cut.cutter import CutJob, CutRecording, CutResult, clipping, cut_one, measure_all
from extras.cut.journal import RecognitionJournal
from extras.cut.manuscript import Manuscript, TextUnit
from extras.cut.planning import PlacedUnit
from extras.cut.profile import VAD_SECONDS, SoundProfile, sounding_spans, speech_spans
from extras.cut.recordings import CuttingError, SourceRecording, check_unchanged
from extras.cut.word_alignment import LONGEST_GAP_SECONDS
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
MIN_EVIDENCE, MIN_WEAKEST = 0.8, -1.0
# Sound with a smaller share of speech is music, noise or breathing.
_MIN_SPEECH = 0.3
# Longer sentences are split at their commas.
_LONG_SECONDS = 8.0
# The shortest and the longest usual duration of a character: fast Spanish and Chinese.
_SECONDS_A_CHARACTER = (0.04, 0.35)
_MIN_SHARE = 0.2


def base_that_aligns(settings: TrainSettings, language: str) -> ScoringBase:
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
    pace = _pace(text, profiles)
    pieces = pieces_of(text, round(_LONG_SECONDS / pace))
    done, placed, first = list[CutRecording](), set[int](), 0
    breaths_of_each = [breaths_of(profile) for profile in profiles]
    with Progress("Aligning", sum(map(len, breaths_of_each)), "breaths") as progress:
        for recording, profile, breaths in zip(job.recordings, profiles, breaths_of_each):
            matched = list[SpanMatch]()
            if breaths and first < len(pieces):
                latents = base.voice(recording, speech_spans(profile.speech))
                codes = base.codes(recording)
                check_unchanged(recording)
                if latents is not None:
                    rest = [piece.text for piece in pieces[first:]]
                    scorer = BaseScorer(base, latents, codes, breaths, rest, language, pace)
                    begun = progress.done
                    score = _with_journal(scorer, job.journal, recording.name, progress)
                    matches = best_matches(breaths, len(rest), score, scorer.may_join)
                    matched = sure_matches(matches, pieces[first:])
                    progress.add(begun + len(breaths) - progress.done)
            units = list(_units(matched, pieces[first:], breaths, recording.seconds))
            done.append(cut_one(recording, profile, units))
            for match in matched:
                placed |= set(range(first + match.first_piece, first + match.last_piece))
            first += matched[-1].last_piece if matched else 0
    _refuse_other_text(placed, pieces, job.recordings, clipping(profiles))
    return CutResult(done, _unheard(placed, pieces, text))


def _with_journal(
    scorer: BaseScorer, journal: RecognitionJournal, name: str, progress: Progress
) -> Callable[[int, Sequence[range]], list[list[SpanScore]]]:
    """A scorer that asks the model only for scores that the journal lacks. Call it for the breaths
    in order."""
    began_with = progress.done

    def score(first: int, groups: Sequence[range]) -> list[list[SpanScore]]:
        if began_with + first > progress.done:
            progress.add(began_with + first - progress.done)
        spans = ",".join(f"{group.start}-{group.stop}" for group in groups)
        key = f"{name}|{first}|{spans}"
        scores = journal.get(key)
        if scores is None:
            scores = scorer.score(first, groups)
            journal.put(key, scores)
        return [[SpanScore(*fields) for fields in row] for row in scores]

    return score


def sure_matches(matches: Sequence[SpanMatch], pieces: Sequence[TextUnit]) -> list[SpanMatch]:
    """The matches that are likely enough. One that begins or ends inside a sentence counts only if
    the rest of that sentence is matched next to it. Pure."""
    sure = [
        match for match in matches if match.nats_a_code >= MIN_EVIDENCE and match.score.weakest >= MIN_WEAKEST
    ]
    while True:
        whole = [
            match
            for place, match in enumerate(sure)
            if _is_whole(match, sure[place - 1 : place], sure[place + 1 : place + 2], pieces)
        ]
        if len(whole) == len(sure):
            return whole
        sure = whole


def _is_whole(
    match: SpanMatch, before: Sequence[SpanMatch], after: Sequence[SpanMatch], pieces: Sequence[TextUnit]
) -> bool:
    first, last = pieces[match.first_piece], pieces[match.last_piece - 1]
    begins = match.first_piece == 0 or pieces[match.first_piece - 1].sentence != first.sentence
    ends = match.last_piece == len(pieces) or pieces[match.last_piece].sentence != last.sentence
    return (begins or any(match.follows(other) for other in before)) and (
        ends or any(other.follows(match) for other in after)
    )


def pieces_of(text: Manuscript, max_characters: int) -> list[TextUnit]:
    """The pieces of a text that are aligned: its sentences, of which long ones are split at the
    ends of clauses. Pure."""
    pieces, pending = list[TextUnit](), list[TextUnit]()
    for number, unit in enumerate(text.units):
        pending.append(unit)
        sentence = text.sentences[unit.sentence]
        divides = unit.ends == 1 and len(sentence) > max_characters
        last = number + 1 == len(text.units) or text.units[number + 1].sentence != unit.sentence
        if last or divides:
            written = " ".join(part.text for part in pending)
            pieces.append(replace(unit, text=written, first_word=pending[0].first_word))
            pending = []
    return pieces


def breaths_of(profile: SoundProfile) -> list[Breath]:
    """The sounds between two pauses that are at least partly speech."""
    breaths = list[Breath]()
    for start, end in sounding_spans(profile):
        frames = profile.speech[int(start / VAD_SECONDS) : int(np.ceil(end / VAD_SECONDS))]
        if len(frames) and float((frames > 0.5).mean()) >= _MIN_SPEECH:
            breaths.append(Breath(start, end))
    return breaths


def _pace(text: Manuscript, profiles: Sequence[SoundProfile]) -> float:
    """Seconds per character, if all speech is the text and all of the text is spoken."""
    characters = sum(map(len, text.sentences))
    seconds = sum(end - start for profile in profiles for start, end in breaths_of(profile))
    least, most = _SECONDS_A_CHARACTER
    return min(max(seconds / max(characters, 1), least), most)


def _units(
    matches: Sequence[SpanMatch], pieces: Sequence[TextUnit], breaths: Sequence[Breath], seconds: float
) -> Iterator[PlacedUnit]:
    for place, match in enumerate(matches):
        following = matches[place + 1] if place + 1 < len(matches) else None
        start, end = breaths[match.first].start, breaths[match.last - 1].end
        after = breaths[match.last].start if match.last < len(breaths) else seconds
        yield PlacedUnit(
            " ".join(piece.text for piece in pieces[match.first_piece : match.last_piece]),
            start,
            end,
            pieces[match.last_piece - 1].ends,
            following is not None and following.follows(match) and after - end <= LONGEST_GAP_SECONDS,
            breaths[match.first - 1].end if match.first else 0.0,
            after,
        )


def _unheard(placed: set[int], pieces: Sequence[TextUnit], text: Manuscript) -> list[int]:
    """The numbers of the sentences of which less than half was matched."""
    said_characters = [0] * len(text.sentences)
    for number in placed:
        said_characters[pieces[number].sentence] += len(pieces[number].text)
    return [
        number
        for number, sentence in enumerate(text.sentences)
        if 2 * said_characters[number] < len(sentence)
    ]


def _refuse_other_text(
    placed: set[int], pieces: Sequence[TextUnit], recordings: Sequence[SourceRecording], cause: str
) -> None:
    matched = sum(len(pieces[number].text) for number in placed)
    whole = sum(len(piece.text) for piece in pieces)
    if matched < _MIN_SHARE * whole:
        cause = cause or " Is it the text of another recording, in another order, or in another language?"
        raise CuttingError(
            f"The text does not fit {recordings[0].path}: {matched:,} of its {whole:,} characters "
            f"were found in their order.{cause} Nothing was written."
        )
