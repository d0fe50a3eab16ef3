"""`python -m benchmarks nearness` measures how near voices come to a person, by outside judges.

`--person` is a folder with recordings of the person that nothing learned from. A similarity is the
cosine to the mean of their embeddings, by CAM++ and by Resemblyzer's GE2E. The row `own` has each
of these recordings against the mean of the others; a share is how much of the way from the first
voice to `own` a voice has come. Whisper counts word errors, DistillMOS judges naturalness. Figures
are means with their standard errors over the sentences. The voices speak under the guard, like the
service does.
"""

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarks import outside_judges, texts
from benchmarks.outside_judges import OutsideJudges
from machine.errors import SotaqueError
from xtts import audio
from xtts.evaluation import recogniser
from xtts.evaluation.pitch import measure_pitch
from xtts.inference.alignment.guard import Ending
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.joined_reference import reference_of
from xtts.sound_endings import is_recording
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceFiles, VoiceSpec, find_voice

ENCODERS = ("campplus", "resemblyzer")
LANGUAGE, PRECISION = "en", "fp32"
# With the keys mean and standard_error.
Estimate = dict[str, float]
# Figures of a sentence that are averaged; word errors and endings are summed.
AVERAGED = ("naturalness", "pitch_hz", "pitch_spread_semitones", "seconds_per_word")
Embeddings = Mapping[str, Tensor]


@dataclass(frozen=True)
class HeardSound:
    """What the judges say of one recording, or of one spoken sentence.

    Attributes:
        embeddings: By the name of the encoder, of length 1.
        transcript: Whisper's.
        naturalness: By DistillMOS, 1 to 5.
        pitch_hz, pitch_spread_semitones: Of `xtts.evaluation.pitch`; None if nothing is voiced.
        seconds: Its length.
    """

    embeddings: Embeddings
    transcript: str
    naturalness: float
    pitch_hz: float | None
    pitch_spread_semitones: float | None
    seconds: float


@dataclass(frozen=True)
class JudgedSentence:
    """A sentence by a voice, with one seed: figures by their names, word errors, words of the text,
    the faulty endings of its pieces, and whether the guard had a piece spoken again."""

    figures: Mapping[str, float | None]
    errors: int
    words: int
    endings: frozenset[Ending]
    spoken_again: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--voice",
        action="append",
        required=True,
        metavar="[NAME=]VOICE",
        help="demo, a base model, an exported voice, a run or a checkpoint; may be repeated, and "
        "shares count from the first",
    )
    parser.add_argument(
        "--person", type=Path, required=True, help="folder of recordings that nothing learned from"
    )
    parser.add_argument(
        "--reference", type=Path, help="recordings that base models speak from, file or folder"
    )
    parser.add_argument("--set", choices=texts.FILES, default="reporting", help="set of sentences")
    parser.add_argument("--sentences", type=int, help="number of sentences, of all lengths")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--whisper", type=Path, help="folder of a Whisper model, for its wheels")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """One row for the person's recordings, and one for each voice. Raises SotaqueError."""
    voices = find_voices(parse_voices(arguments.voice), arguments.reference)
    recordings = recordings_of(arguments.person)
    judges = outside_judges.open_judges(arguments.whisper, LANGUAGE)
    clips = [hear(judges, audio.read(path, outside_judges.RATE)) for path in recordings]
    person = {name: centre([clip.embeddings[name] for clip in clips]) for name in ENCODERS}
    lines = sample_evenly(texts.sentences(arguments.set), arguments.sentences)
    spoken = {
        name: judge_voice(judges, person, voice, lines, arguments.seeds) for name, voice in voices.items()
    }
    return {
        "clips": len(clips),
        "sentences": len(lines),
        "seeds": arguments.seeds,
        "rows": rows(own_figures(clips), spoken),
    }


# ---- what is compared ----


def parse_voices(options: Sequence[str]) -> dict[str, str]:
    """Voices by name, from NAME=VOICE; without a name, by the last part of the path. Raises
    SotaqueError for two voices of one name."""
    pairs = [
        (name, voice) if equals else (Path(option).name, option)
        for option in options
        for name, equals, voice in [option.partition("=")]
    ]
    names = [name for name, _ in pairs]
    if duplicates := {name for name in names if names.count(name) > 1} | ({"own"} & set(names)):
        raise SotaqueError(
            f"--voice: {', '.join(sorted(duplicates))} is the name of two rows. Name each voice: "
            "--voice NAME=VOICE."
        )
    return dict(pairs)


def find_voices(voices: Mapping[str, str], reference: Path | None) -> dict[str, VoiceFiles]:
    """The files of each voice. Base models speak from `reference`, other voices from their own
    recordings. Raises SotaqueError."""
    recordings = None if reference is None else reference_of([reference])
    files_of = {}
    for name, voice in voices.items():
        files = find_voice(VoiceSpec(voice, tos_agreed=True))
        if recordings is not None and is_base(files):
            files = find_voice(VoiceSpec(voice, tos_agreed=True, reference=recordings))
        files_of[name] = files
    return files_of


def is_base(files: VoiceFiles) -> bool:
    """Whether these are the files of a base model: neither exported nor of a run."""
    return files.licence is None and not files.provenance and not files.onnx


def recordings_of(person: Path) -> list[Path]:
    """The recordings in a folder. Raises SotaqueError for fewer than two, which cannot be compared
    with each other."""
    recordings = sorted(path for path in person.iterdir() if is_recording(path)) if person.is_dir() else []
    if len(recordings) < 2:
        raise SotaqueError(
            f"--person: {person} has {len(recordings)} recordings. Name a folder with two or more, "
            "because `own` compares them with each other."
        )
    return recordings


def sample_evenly(lines: Sequence[str], count: int | None) -> list[str]:
    """`count` lines at equal distances, so of all lengths: the sets are sorted by length."""
    count = min(count or len(lines), len(lines))
    return [lines[int((number + 0.5) * len(lines) / count)] for number in range(count)]


# ---- judging ----


def hear(judges: OutsideJudges, sound: Tensor) -> HeardSound:
    """What the judges say of `[samples]` at 16 kHz."""
    pitch = measure_pitch(sound, outside_judges.RATE)
    return HeardSound(
        {name: getattr(judges, name).embedding(sound) for name in ENCODERS},
        judges.whisper.hear(sound.numpy()),
        judges.distillmos.mos(sound),
        pitch.median_hz if pitch else None,
        pitch.spread_semitones if pitch else None,
        len(sound) / outside_judges.RATE,
    )


def judge_voice(
    judges: OutsideJudges, person: Embeddings, voice: VoiceFiles, lines: Sequence[str], seeds: int
) -> list[list[JudgedSentence]]:
    """Each sentence of a voice with each seed. Raises SotaqueError."""
    loaded = load_voice(voice, ComputeConfig(precision=PRECISION))
    if loaded.own_voice is None:
        raise SotaqueError(f"{voice.folder} has no recording; name some with --reference.")
    return [[judge_sentence(judges, person, loaded, line, seed) for seed in range(seeds)] for line in lines]


def judge_sentence(
    judges: OutsideJudges, person: Embeddings, voice: LoadedVoice, line: str, seed: int
) -> JudgedSentence:
    """Speaks a sentence and judges it."""
    request = SynthesisRequest(line, LANGUAGE, seed)
    guard = voice.guard(request)
    assert guard is not None
    waveform = torch.as_tensor(voice.synthesize_guarded(request, guard))
    sound = hear(judges, audio.resample(waveform, voice.sample_rate, outside_judges.RATE))
    tokenizer = voice.model.tokenizer
    words = recogniser.words_of(tokenizer, line, LANGUAGE)
    transcript = recogniser.heard_words(tokenizer, sound.transcript, LANGUAGE)
    return JudgedSentence(
        {name: float(sound.embeddings[name] @ person[name]) for name in ENCODERS}
        | sound_figures(sound, len(words)),
        recogniser.num_errors(words, transcript),
        len(words),
        frozenset(piece.ending for piece in guard.pieces if piece.faulty),
        any(piece.attempts > 1 for piece in guard.pieces),
    )


def sound_figures(sound: HeardSound, num_words: int) -> dict[str, float | None]:
    """The figures that need no other recording."""
    return {
        "naturalness": sound.naturalness,
        "pitch_hz": sound.pitch_hz,
        "pitch_spread_semitones": sound.pitch_spread_semitones,
        "seconds_per_word": sound.seconds / num_words if num_words else None,
    }


# ---- figures ----


def centre(embeddings: Sequence[Tensor]) -> Tensor:
    """The mean of embeddings, of length 1."""
    mean = torch.stack(list(embeddings)).mean(0)
    return mean / mean.norm().clamp(min=1e-6)


def own_similarities(embeddings: Sequence[Tensor]) -> list[float]:
    """The cosine of each embedding to the mean of the others."""
    return [
        float(embedding @ centre([*embeddings[:number], *embeddings[number + 1 :]]))
        for number, embedding in enumerate(embeddings)
    ]


def own_figures(clips: Sequence[HeardSound]) -> dict[str, Estimate | None]:
    """The row of the person's recordings; Whisper counts their words."""
    similarities: dict[str, Estimate | None] = {}
    for name in ENCODERS:
        similarities[name] = estimate(own_similarities([clip.embeddings[name] for clip in clips]))
        similarities[f"{name}_share"] = {"mean": 1.0, "standard_error": 0.0}  # by definition
    figures_of_clips = [sound_figures(clip, len(clip.transcript.split())) for clip in clips]
    return similarities | {
        name: estimate([figures[name] for figures in figures_of_clips]) for name in AVERAGED
    }


def rows(
    person: Mapping[str, Estimate | None], spoken: Mapping[str, Sequence[Sequence[JudgedSentence]]]
) -> dict[str, dict[str, object]]:
    """`own` and the row of each voice. `never_ended`, `broken_off`, `faulty` and `spoken_again`
    count sentences over all seeds: those that reached the code limit, that stopped before the end
    of the text, with any faulty ending, and with a piece that the guard had spoken again."""
    first = next(iter(spoken))
    table: dict[str, dict[str, object]] = {"own": dict(person)}
    for name, sentences in spoken.items():
        row: dict[str, object] = {}
        for encoder in ENCODERS:
            similarities = by_sentence(sentences, encoder)
            row[encoder] = estimate(similarities)
            first_similarities = by_sentence(spoken[first], encoder)
            own_similarity = person[encoder]
            assert own_similarity is not None  # of two recordings or more
            row[f"{encoder}_share"] = share_of_way(similarities, first_similarities, own_similarity)
        row["word_errors"] = error_rate(sentences)
        row |= {figure: estimate(by_sentence(sentences, figure)) for figure in AVERAGED}
        table[name] = row | endings([sentence for seeds in sentences for sentence in seeds])
    return table


def endings(spoken: Sequence[JudgedSentence]) -> dict[str, int]:
    """How many sentences end badly, as in `rows`."""
    return {
        "never_ended": sum(Ending.CUT in sentence.endings for sentence in spoken),
        "broken_off": sum(Ending.UNFINISHED in sentence.endings for sentence in spoken),
        "faulty": sum(bool(sentence.endings) for sentence in spoken),
        "spoken_again": sum(sentence.spoken_again for sentence in spoken),
    }


def by_sentence(sentences: Sequence[Sequence[JudgedSentence]], name: str) -> list[float | None]:
    """A figure of each sentence, the mean over its seeds; None where no seed has it."""
    means: list[float | None] = []
    for seeds in sentences:
        values = [value for sentence in seeds if (value := sentence.figures[name]) is not None]
        means.append(statistics.fmean(values) if values else None)
    return means


def estimate(values: Sequence[float | None]) -> dict[str, float] | None:
    """The mean with its standard error, which is 0 for a single value; None without a value."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"mean": statistics.fmean(known), "standard_error": standard_error(known)}


def standard_error(values: Sequence[float]) -> float:
    """The standard error of the mean of independent values; 0 for a single one."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def share_of_way(
    voice: Sequence[float | None], base: Sequence[float | None], person: Mapping[str, float]
) -> dict[str, float] | None:
    """(voice - base) / (person - base) of the means over the same sentences; None where the base is
    as near as the person is. The error is that of the linearised ratio, paired by sentences."""
    pairs = [(x, b) for x, b in zip(voice, base, strict=True) if x is not None and b is not None]
    base_mean = statistics.fmean(b for _, b in pairs)
    way = person["mean"] - base_mean
    if way <= 0:
        return None
    share = (statistics.fmean(x for x, _ in pairs) - base_mean) / way
    sentence_error = standard_error([(x - (1 - share) * b) / way for x, b in pairs])
    error = math.hypot(sentence_error, share * person["standard_error"] / way)
    return {"mean": share, "standard_error": error}


def error_rate(sentences: Sequence[Sequence[JudgedSentence]]) -> dict[str, float]:
    """Errors per word over all sentences, with the standard error of a ratio over the sentences."""
    counts = [(sum(s.errors for s in seeds), sum(s.words for s in seeds)) for seeds in sentences]
    words = sum(count for _, count in counts)
    rate = sum(errors for errors, _ in counts) / words
    residuals = [errors - rate * count for errors, count in counts]
    return {"mean": rate, "standard_error": standard_error(residuals) * len(counts) / words}
