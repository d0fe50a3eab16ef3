"""`python -m benchmarks voice` judges how the embedded voice speaks, by programs alone.

`--set choosing` is for trials, `--set reporting` for published figures (`benchmarks.texts`);
`--joined 3` has texts of three sentences. Each text is spoken with several seeds under the guard,
like the service does; `--guard off` measures the model by itself. Every figure is a mean with its
standard deviation over the seeds. The same recogniser and the judge of naturalness also judge the
source's recordings.
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from benchmarks import judges, synthetic, texts
from xtts.audio import CODE_RATE, SPEAKER_RATE, VOCODER_RATE, resample
from xtts.evaluation import naturalness
from xtts.inference.synthesis_request import SynthesisRequest

if TYPE_CHECKING:
    from xtts.inference.voice import Voice

# A text whose length is outside these shares of the source's is cut off, or babbles. With one or
# two words, the pauses at both ends count for more than the words.
SHORTEST, LONGEST, FEWEST_WORDS = 0.7, 1.4, 4
# Text of a reference recording, and texts that train the voice judge; none is a test.
REFERENCE_TEXT = "Good evening, I am going to read you a short story about a fox and a hen."
JUDGE_TEXTS = tuple(
    f"{who} {what} {where}."
    for who in ("The farmer", "My sister", "A tall man", "The young queen")
    for what in ("found a silver coin", "was waiting for us", "sold the old boat")
    for where in ("behind the church", "early this morning")
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bundle", default="demo", help="demo, an exported voice, a checkpoint, or source"
    )
    parser.add_argument(
        "--speak-as", default=judges.HIBARI, help="voices whose recordings it is given"
    )
    parser.add_argument(
        "--reference",
        type=Path,
        help="recording to speak from, instead of one that no training used",
    )
    parser.add_argument("--set", choices=texts.FILES, default="twenty", help="set of sentences")
    parser.add_argument("--joined", type=int, help="sentences of the set per text")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=None, help="number of texts")
    parser.add_argument(
        "--precision", default="fp32", help="fp32, bf16, int8, int4, auto, onnx-fp32 or onnx-int8"
    )
    parser.add_argument("--low-memory", action="store_true", help="speak as with LOW_MEMORY=on")
    parser.add_argument("--guard", choices=("on", "off"), default="on")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Figures of each voice; source and source_naturalness: word errors and DistillMOS of the
    source's recordings. Naturalness is left out where its judge is not installed."""
    sentences = texts.sentences(arguments.set)
    if arguments.joined:
        sentences = texts.joined(sentences, arguments.joined)
    sentences = sentences[: arguments.sentences]
    voices = arguments.speak_as.split(",")
    return {voice: measured(arguments, voice, sentences) for voice in voices}


def measured(arguments: argparse.Namespace, voice: str, sentences: Sequence[str]) -> dict[str, Any]:
    """All figures of speaking as hibari or one of flite's voices."""
    clips = {
        name: [judges.teacher(name, text) for text in JUDGE_TEXTS]
        for name in dict.fromkeys((*judges.VOICES, voice))
    }
    judge = judges.VoiceJudge.learn(clips, voice)
    listener = None if naturalness.missing() else naturalness.NaturalnessJudge()
    source = [judges.teacher(voice, text) for text in sentences]
    own = judges.word_errors(sentences, [judges.words_heard(clip) for clip in source])
    spoken_by_seed = spoken(
        arguments.bundle,
        voice,
        sentences,
        arguments.seeds,
        arguments.precision,
        low=arguments.low_memory,
        recording=arguments.reference,
        guarded=arguments.guard == "on",
    )
    seeds = [figures(said, source, sentences, judge, listener) for said in spoken_by_seed]
    return {
        "source": own,
        **({"source_naturalness": mean_mos(listener, source)} if listener else {}),
        "figures": {name: spread([seed[name] for seed in seeds]) for name in seeds[0]},
    }


def figures(
    spoken: Sequence[Tensor],
    source: Sequence[Tensor],
    sentences: Sequence[str],
    judge: judges.VoiceJudge,
    listener: naturalness.NaturalnessJudge | None = None,
) -> dict[str, float]:
    """One seed's sentences, [samples] at 16 kHz each, against the source's. astray: texts that are
    cut or babble."""
    pairs = list(zip(spoken, source, strict=True))
    lengths = [len(one) / len(other) for one, other in pairs]
    named = [judge.name(clip) == judge.wanted for clip in spoken]
    heard = [judges.words_heard(clip) for clip in spoken]
    return {
        "word_errors": judges.word_errors(sentences, heard),
        "heard_as_wanted": sum(named) / len(named),
        "similarity": statistics.fmean(judge.similarity(clip) for clip in spoken),
        "distortion_db": statistics.fmean(judges.cepstral_distortion(*pair) for pair in pairs),
        "distance": statistics.fmean(judges.distance(*pair) for pair in pairs),
        "astray": float(astray(sentences, lengths)),
        **({"naturalness": mean_mos(listener, spoken)} if listener else {}),
    }


def mean_mos(listener: naturalness.NaturalnessJudge, clips: Sequence[Tensor]) -> float:
    """The mean DistillMOS, 1 to 5, of clips [samples] at 16 kHz."""
    return statistics.fmean(listener.mos(clip) for clip in clips)


def astray(sentences: Sequence[str], lengths: Sequence[float]) -> int:
    """How many texts of four words or more are cut or babble, by their shares of the source's
    lengths."""
    long = (texts.num_words(text) >= FEWEST_WORDS for text in sentences)
    pairs = zip(long, lengths, strict=True)
    return sum(counts and not SHORTEST <= length <= LONGEST for counts, length in pairs)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean and standard deviation over the seeds; the latter is 0 for a single value."""
    return {"mean": statistics.fmean(values), "spread": statistics.pstdev(values)}


def spoken(
    bundle: str,
    voice: str,
    sentences: Sequence[str],
    seeds: int,
    precision: str,
    *,
    low: bool,
    recording: Path | None,
    guarded: bool = True,
) -> Iterator[list[Tensor]]:
    """The sentences of each seed in turn, at 16 kHz; `source` gives the person's own, once."""
    if bundle == "source":
        yield [judges.teacher(voice, text) for text in sentences]
        return
    from xtts.inference import speech
    from xtts.inference.compute_config import ComputeConfig
    from xtts.inference.torch_backend import TorchBackend
    from xtts.inference.voice import read_reference, voice_from_reference
    from xtts.voices.base_models import DEMO
    from xtts.voices.loading import load_voice
    from xtts.voices.voice_files import VoiceSpec

    with_onnx = precision.startswith("onnx-")
    own = "fp32" if with_onnx else precision
    where = ComputeConfig(precision=own, low_memory=low and not with_onnx, guard=guarded)
    opened: Any = load_voice(VoiceSpec(bundle, tos_agreed=True), where)
    model = opened.model
    if recording is None:
        reference = resample(judges.teacher(voice, REFERENCE_TEXT), SPEAKER_RATE, CODE_RATE)
    else:
        reference = read_reference(model.config, recording)
    heard = voice_from_reference(model, reference)
    heard = replace(heard, vocoder=opened.decoder)
    speaks: tuple[Any, Any] = (TorchBackend(model), heard)
    if with_onnx:
        folder = DEMO if bundle == "demo" else Path(bundle)
        speaks = onnx_voice(folder, heard, precision.removeprefix("onnx-"), low=low)
    for seed in range(seeds):
        asked = [SynthesisRequest(text, "en", seed) for text in sentences]
        said = [speech.synthesize(*speaks, request, opened.guard(request)) for request in asked]
        yield [resample(torch.as_tensor(wave), VOCODER_RATE, SPEAKER_RATE) for wave in said]


def onnx_voice(base: Path, heard: "Voice", kind: str, *, low: bool) -> tuple[Any, Any]:
    """The backend of an export of `base`, and for it a voice that torch has heard; low: as
    LOW_MEMORY=on."""
    from extras.onnx.export import exporter
    from extras.onnx.speech.backend import OnnxBackend
    from extras.onnx.speech.loading import load_onnx_model
    from xtts.inference.speech import Voice

    with tempfile.TemporaryDirectory() as name:
        exporter.export(exporter.source_of_folder(base), Path(name) / "voice", [kind])
        loaded = load_onnx_model(Path(name) / "voice", synthetic.onnx_config(kind, low=low))
    return OnnxBackend(loaded), Voice(heard.latents.numpy(), heard.speaker.numpy())
