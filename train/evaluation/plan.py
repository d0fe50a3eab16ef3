"""Plans an evaluation: its sentences, its recogniser, and the person whose voice is compared.

The sentences are the built-in ones of the language or the user's own, and the texts of some of the
person's clips. The sets for which this project reports figures contain no built-in sentence
(`tests/train/evaluation/test_plan.py`), so they can judge the choices made by these sentences.

The person is measured by their clips: rate, pitch, its spread and a scale of similarity, on which 1
is another recording of the same person and 0 is the average of other people, by
`xtts.evaluation.speaker_judge` or, without its package, by the base's speaker encoder.
"""

import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from machine.errors import SotaqueError
from machine.storage.checksums import sha256_of
from train import defaults
from train.dataset.dataset import Clip, Dataset
from train.evaluation.strangers import stranger_embeddings
from train.sampling.reference import MIN_COMPARED, SampleReference, compared_clips, joined_clip_hashes
from train.settings import TrainSettings
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE
from xtts.evaluation import naturalness, speaker_judge
from xtts.evaluation.recogniser import recogniser_of
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.config import DecoderSteps, ModelConfig
from xtts.text.languages import short_code
from xtts.voices.evaluation_file import MeanInterval
from xtts.workers.decoder_schedule import DEFAULT_STEPS
from xtts.workers.requests import SLOTS, HeardRecordings, ListenRequest, RecordingFacts, SpeakingRate

# Without a recogniser, only every third sentence becomes audio: at full size, the vocoder costs
# more than everything else together.
SOUNDED_EVERY = 3
SENTENCES_FOLDER = Path(__file__).parents[1] / "data" / "evaluation"
# For a base without published voices, if it judges voices itself.
OTHER_VOICES = SENTENCES_FOLDER / "voices"
# Every fourth sentence is the text of a clip: the epochs know these texts best.
CLIP_EVERY = 4
# Sentences in an old language: one batch of them, which is enough for an interval.
NUM_OLD_SENTENCES = SLOTS
# A generous rate for any language: text ids are letters in some and words in others.
GENEROUS_RATE = SpeakingRate(8.0, 10.0)
# Sentences for each candidate in a run; `train evaluate` speaks all.
MAX_RUN_SENTENCES = 16
# A run judges the naturalness of every second sound: judging it costs a sixth of everything else.
NATURAL_EVERY = 2
# WAV files to keep for each candidate.
MAX_KEPT_WAVS = 4
# Fewer clips do not determine a line through their lengths.
MIN_CLIPS_FOR_LINE = 8
# If the two ends of the scale are closer than this, the encoder cannot distinguish people.
MIN_SCALE_COSINE = 0.05
COMPARED_WITH_REFERENCE = "compared with the reference"
NATURALNESS_OFF = "EVALUATE_NATURALNESS is off"


@dataclass(frozen=True)
class EvaluationSentence:
    """A sentence that every candidate speaks. source: built_in, own or clip."""

    request: SynthesisRequest
    source: str


@dataclass(frozen=True)
class EvaluationPlan:
    """The sentences for every candidate, and the recordings for comparison.

    Attributes:
        sentences: In the order in which they are spoken.
        clips: All of the person's clips, for the rate.
        training_clips: The person's clips that training uses, from which decoders learn.
        compared_clips: The clips to compare the voice with.
        base: {name, sha256} as in a manifest.
        recogniser: As `EvaluateRequest.recogniser`; "" for none.
        why_no_recogniser: None if there is one.
        clips_by_speaker: All clips of each further speaker of the dataset.
        old_language_sentences: In a run that learns an added language, sentences in a language of the base.
        old_language_recogniser: The recogniser of these sentences; "" for none.
        why_no_naturalness: None if naturalness is judged.
        why_no_speaker_judge: Why the base's speaker encoder compares voices; None if it does not.
        learns_decoder: Whether decoders learn the clips (LEARN_DECODER and the base's advice).
        decoder_steps: The steps of a decoder by the minutes of clips.
    """

    sentences: Sequence[EvaluationSentence]
    reference: SampleReference
    clips: Sequence[Clip]
    training_clips: Sequence[Clip]
    compared_clips: Sequence[Clip]
    base: dict[str, str]
    recogniser: str
    why_no_recogniser: str | None
    clips_by_speaker: Mapping[str, Sequence[Clip]] = field(default_factory=dict)
    old_language_sentences: Sequence[EvaluationSentence] = ()
    old_language_recogniser: str = ""
    learns_added_language: bool = False
    why_no_naturalness: str | None = NATURALNESS_OFF
    why_no_speaker_judge: str | None = "not asked for"
    learns_decoder: bool = False
    decoder_steps: DecoderSteps = DEFAULT_STEPS

    @property
    def sentence_set(self) -> str:
        """A hash that comparable evaluations share."""
        requests = [sentence.request for sentence in (*self.sentences, *self.old_language_sentences)]
        spoken = [[request.text, request.language, request.seed] for request in requests]
        recognisers = self.recogniser + self.old_language_recogniser
        content = [sha256_of(self.reference.path), spoken, *([recognisers] if recognisers else [])]
        if not self.why_no_speaker_judge:
            content.append(speaker_judge.PACKAGE)
        if self.learns_decoder:  # then every candidate is also compared with the reference
            content.append(COMPARED_WITH_REFERENCE)
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @property
    def sentences_in_run(self) -> int:
        """The number of sentences that a run speaks: all of EVALUATE_TEXTS, if set."""
        has_own_texts = any(sentence.source == "own" for sentence in self.sentences)
        return len(self.sentences) if has_own_texts else min(MAX_RUN_SENTENCES, len(self.sentences))

    @property
    def compares_held_out_clips(self) -> bool:
        """Whether training leaves out any of the compared clips."""
        learned = {clip.sha256 for clip in self.training_clips}
        return not learned.issuperset(clip.sha256 for clip in self.compared_clips)

    @property
    def held_out_clips(self) -> list[Clip]:
        """The person's clips that nothing learns from and nothing speaks from, in a fixed order."""
        used = {clip.sha256 for clip in self.training_clips} | set(joined_clip_hashes(self.reference.path))
        clips = (clip for clip in self.clips if clip.sha256 not in used)
        return sorted(clips, key=lambda clip: clip.sha256)

    @property
    def sounded_every(self) -> int:
        """Every n-th sentence goes through the vocoder; with a recogniser, every one."""
        return 1 if self.recogniser else SOUNDED_EVERY


def plan_of(
    settings: TrainSettings,
    data: Dataset,
    reference: SampleReference,
    base: dict[str, str],
    config: ModelConfig,
) -> EvaluationPlan:
    """The plan of a run on a base with this configuration. Raises SotaqueError for an invalid
    EVALUATE_TEXTS or EVALUATE_RECOGNISER."""
    person_clips = compared_clips(data, reference.speaker)
    texts_file = Path(settings.evaluate_texts) if settings.evaluate_texts else None
    texts = planned_sentences(texts_file, reference.language, person_clips, settings.seed)
    recogniser, why_no_recogniser = recogniser_of(settings.evaluate_recogniser, reference.language)
    further = sorted({clip.speaker for clip in data.clips} - {reference.speaker})
    unlearned = {extension.language for extension in config.unlearned}
    learns_added = short_code(reference.language) in unlearned
    old_sentences = old_language_sentences(config, settings.seed) if learns_added else []
    old_recogniser = ""
    if old_sentences and settings.evaluate_recogniser != "off":
        old_recogniser, _ = recogniser_of("auto", old_sentences[0].request.language)
    return EvaluationPlan(
        sentences=texts,
        reference=reference,
        clips=[clip for clip in data.clips if clip.speaker == reference.speaker],
        training_clips=data.training_clips(reference.speaker),
        compared_clips=person_clips,
        base=base,
        recogniser=recogniser,
        why_no_recogniser=why_no_recogniser,
        clips_by_speaker={name: [clip for clip in data.clips if clip.speaker == name] for name in further},
        old_language_sentences=old_sentences,
        old_language_recogniser=old_recogniser,
        learns_added_language=learns_added,
        why_no_naturalness=why_no_naturalness(settings.evaluate_naturalness),
        why_no_speaker_judge=speaker_judge.missing_reason(),
        learns_decoder=defaults.with_advice(settings, config.training).learn_decoder != "off",
        decoder_steps=defaults.decoder_steps(config.training),
    )


def old_language_sentences(config: ModelConfig, seed: int) -> list[EvaluationSentence]:
    """Sentences in the first language of the base that has built-in ones, to check that the model
    still knows it; empty if there is none."""
    unlearned = {extension.language for extension in config.unlearned}
    known = (
        language
        for language in config.languages
        if language not in unlearned and built_in_sentences(language)
    )
    language = next(known, None)
    if language is None:
        return []
    return planned_sentences(None, language, (), seed)[:NUM_OLD_SENTENCES]


def why_no_naturalness(setting: str) -> str | None:
    """`EvaluationPlan.why_no_naturalness`, by the setting."""
    return NATURALNESS_OFF if setting == "off" else naturalness.missing_reason()


# Sentences


def built_in_sentences(language: str) -> list[str]:
    """The built-in sentences of a language, or an empty list."""
    path = SENTENCES_FOLDER / f"{short_code(language)}.txt"
    return _read_texts(path) if path.is_file() else []


def halve_text(text: str) -> tuple[str, str]:
    """Cuts a sentence in two, between words or, in a text without spaces, between characters."""
    space = " " if " " in text else ""
    words = text.split(space) if space else list(text)
    middle = (len(words) + 1) // 2
    return space.join(words[:middle]) + space, space.join(words[middle:])


def planned_sentences(
    texts_file: Path | None, language: str, clips: Sequence[Clip], seed: int
) -> list[EvaluationSentence]:
    """The sentences in the order in which they are spoken; any first n of them are a fair sample.

    Args:
        texts_file: EVALUATE_TEXTS.
        clips: The person's clips that are not in the reference.

    Raises:
        SotaqueError: EVALUATE_TEXTS cannot be used.
    """
    texts = _read_texts(texts_file) if texts_file else built_in_sentences(language)
    source = "own" if texts_file else "built_in"
    clip_texts = list(dict.fromkeys(clip.text for clip in clips if clip.text not in texts))
    ordered: list[tuple[str, str]] = []
    for number, text in enumerate(texts):
        ordered.append((text, source))
        if number % (CLIP_EVERY - 1) == CLIP_EVERY - 2 and clip_texts:
            ordered.append((clip_texts.pop(0), "clip"))
    if not texts:
        ordered = [(text, "clip") for text in clip_texts]
    return [
        EvaluationSentence(SynthesisRequest(text, language, seed * 10_000 + 100 * number), source)
        for number, (text, source) in enumerate(ordered)
    ]


def _read_texts(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SotaqueError(f"EVALUATE_TEXTS={path} cannot be read ({error}).") from error
    texts = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not texts:
        raise SotaqueError(f"EVALUATE_TEXTS={path} holds no sentence. Write one on each line.")
    return texts


# The person


@dataclass(frozen=True)
class VoiceScale:
    """A scale of similarity: 1 is another recording of the person, 0 the average of other people.

    Attributes:
        centre: The person's speaker embedding, of length 1.
        cosine_at_one, cosine_at_zero: The cosines to `centre` at the two ends.
    """

    centre: np.ndarray
    cosine_at_one: float
    cosine_at_zero: float

    def similarity(self, embedding: Sequence[float]) -> float | None:
        """The position of an embedding on the scale; None without an embedding."""
        if not embedding:
            return None
        return (cosine(np.asarray(embedding), self.centre) - self.cosine_at_zero) / (
            self.cosine_at_one - self.cosine_at_zero
        )

    def share_of_scale(self, gain: MeanInterval) -> MeanInterval:
        """A difference of cosines as a share of the scale."""
        width = self.cosine_at_one - self.cosine_at_zero
        return MeanInterval(gain.mean / width, gain.low / width, gain.high / width, gain.count)


@dataclass(frozen=True)
class Person:
    """The measurements of a person's voice.

    Attributes:
        why_no_voice_scale: None if there is one.
        pitch_hz, pitch_spread: None if no clip has a pitch.
        num_clips: The number of compared clips.
        naturalness: One figure for each judged clip.
        reference_embedding: That of the reference, if voices are also compared with it; else empty.
        word_errors: The recogniser's mean word error rate on the clips; None without a recogniser.
    """

    rate: SpeakingRate
    voice_scale: VoiceScale | None
    why_no_voice_scale: str | None
    pitch_hz: float | None
    num_clips: int
    naturalness: tuple[float, ...] = ()
    pitch_spread: float | None = None
    reference_embedding: tuple[float, ...] = ()
    word_errors: float | None = None

    def compared_with(self, embedding: Sequence[float]) -> "Person":
        """The same person with the cosine to an embedding as the scale of the voice; without a
        scale for an empty embedding."""
        if not len(embedding):
            return replace(self, voice_scale=None)
        scale = VoiceScale(np.asarray(embedding), cosine_at_one=1.0, cosine_at_zero=0.0)
        return replace(self, voice_scale=scale)


def listen_request(plan: EvaluationPlan) -> ListenRequest:
    """The request that measures the person's recordings and, for a base that judges voices itself,
    those of other people."""
    paths = [clip.path for clip in plan.compared_clips]
    other_voices = sorted(OTHER_VOICES.glob("*.flac")) if plan.why_no_speaker_judge else []
    return ListenRequest(
        (*paths, *other_voices),
        natural=len(paths) if plan.why_no_naturalness is None else 0,
        speaker_judge=plan.why_no_speaker_judge is None,
        texts=tuple(clip.text for clip in plan.compared_clips),
        language=plan.reference.language,
        recogniser=plan.recogniser,
    )


def describe_person(plan: EvaluationPlan, measured: HeardRecordings) -> Person:
    """Describes the person from all of their clips, and from the answer to `listen_request`."""
    count = len(plan.compared_clips)
    recordings, others = measured.recordings[:count], measured.recordings[count:]
    strangers = _stranger_embeddings(plan, measured.base_voices, recordings, others)
    scale, why_no_scale = voice_scale(recordings, strangers)
    pitches = [recording.pitch_hz for recording in recordings if recording.pitch_hz]
    spreads = [recording.pitch_spread for recording in recordings if recording.pitch_spread]
    errors = [recording.word_errors for recording in recordings if recording.word_errors is not None]
    return Person(
        speaking_rate([(clip.seconds, len(clip.tokens)) for clip in plan.clips]),
        scale,
        why_no_scale,
        statistics.median(pitches) if pitches else None,
        count,
        tuple(recording.naturalness for recording in recordings if recording.naturalness is not None),
        statistics.fmean(spreads) if spreads else None,
        word_errors=round(statistics.fmean(errors), 4) if errors else None,
    )


def _stranger_embeddings(
    plan: EvaluationPlan,
    base_voices: Sequence[Sequence[float]],
    recordings: Sequence[RecordingFacts],
    others: Sequence[RecordingFacts],
) -> list[np.ndarray]:
    """Embeddings of other people or recordings, by the encoder that judges. The product of a row
    with a unit vector is a mean cosine."""
    if plan.why_no_speaker_judge is None:
        embeddings = [np.asarray(recording.embedding) for recording in recordings if recording.embedding]
        return stranger_embeddings(_centre(embeddings)) if embeddings else []
    embedded = base_voices or [recording.embedding for recording in others if recording.embedding]
    return [np.asarray(embedding) / np.linalg.norm(embedding) for embedding in embedded]


def speaking_rate(clips: Sequence[tuple[float, int]]) -> SpeakingRate:
    """Codes as a function of text tokens, from (seconds, tokens) of clips.

    A least-squares line, on which `per_text` is the silence at both ends of a clip; for few clips,
    a ratio.
    """
    codes = np.array([seconds * CODE_RATE / SAMPLES_PER_CODE for seconds, _ in clips])
    tokens = np.array([tokens for _, tokens in clips], dtype=np.float64)
    ratio = SpeakingRate(float(codes.sum() / max(1.0, tokens.sum())), 0.0)
    if len(clips) < MIN_CLIPS_FOR_LINE or np.ptp(tokens) < 5:
        return ratio
    per_token, per_text = np.polyfit(tokens, codes, 1)
    # An implausible line: almost no time for a token, or a negative time for an empty text.
    if per_token <= 0.25 * ratio.per_token or per_text < 0:
        return ratio
    return SpeakingRate(float(per_token), float(per_text))


def voice_scale(
    recordings: Sequence[RecordingFacts], strangers: Sequence[np.ndarray]
) -> tuple[VoiceScale | None, str | None]:
    """The scale, or the reason why there is none. strangers: of `_stranger_embeddings`."""
    embeddings = [np.asarray(recording.embedding) for recording in recordings if recording.embedding]
    if len(embeddings) < MIN_COMPARED:
        return None, (
            f"the person has {len(embeddings)} recordings besides the reference; at least "
            f"{MIN_COMPARED} are needed to measure how similar two of them are"
        )
    if not strangers:
        return None, "there are no other voices to compare with"
    likeness = [
        cosine(embedding, _centre(embeddings[:number] + embeddings[number + 1 :]))
        for number, embedding in enumerate(embeddings)
    ]
    centre = _centre(embeddings)
    cosine_at_one = statistics.fmean(likeness)
    cosine_at_zero = statistics.fmean(float(stranger @ centre) for stranger in strangers)
    if cosine_at_one - cosine_at_zero < MIN_SCALE_COSINE:
        return None, (
            "the speaker encoder hardly distinguishes the person from other people "
            f"({cosine_at_one:.2f} against {cosine_at_zero:.2f})"
        )
    return VoiceScale(centre, cosine_at_one, cosine_at_zero), None


def _centre(embeddings: Sequence[np.ndarray]) -> np.ndarray:
    mean: np.ndarray = np.mean([embedding / np.linalg.norm(embedding) for embedding in embeddings], axis=0)
    return mean / np.linalg.norm(mean)


def cosine(embedding: np.ndarray, other: np.ndarray) -> float:
    return float(embedding @ other / (np.linalg.norm(embedding) * np.linalg.norm(other)))
