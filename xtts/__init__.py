"""The model: reads a voice from disk and speaks with it.

From a notebook, in four lines:

>>> import soundfile, xtts
>>> voice = xtts.load_voice("demo")
>>> waveform = xtts.synthesize(voice, "Good morning.")
>>> soundfile.write("out.wav", waveform, voice.sample_rate)

The first argument of `load_voice` is `demo` (the voice in the package), a `.sotaque` file, the
folder of an exported voice (`python -m train export`), or a checkpoint of a run. `reference` is a
recording of another person as the speaker:

>>> voice = xtts.load_voice("demo", reference="anna.wav")
>>> waveform = xtts.synthesize(voice, "Good morning.", language="en", seed=3, speed=1.2)

`stream` returns the same speech in chunks, the first one after a fraction of a second:

>>> for chunk in xtts.stream(voice, "Good morning. It is a long story."):
...     play(chunk)

Importing this package does not import torch. The first `load_voice` does; for an ONNX voice, only a
`reference` does.

Sub-packages: `model` (GPT, vocoder, loading), `text` (tokenizer), `inference` (latents, decoding,
batching), `workers` (speech in child processes), `voices` (base models, exported voices and run
folders on disk), `evaluation` (measures of speech), `download` (the published model), `verbs`
(commands).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    import numpy as np
    from numpy.typing import NDArray

    from xtts.inference.loaded_voice import LoadedVoice

__all__ = ["load_voice", "stream", "synthesize"]


def load_voice(
    name: "str | os.PathLike[str]" = "demo",
    *,
    reference: "str | os.PathLike[str] | list[str | os.PathLike[str]] | None" = None,
    speaker: str = "",
    base: "str | os.PathLike[str] | None" = None,
    device: str = "cpu",
    precision: str = "auto",
    low_memory: bool = False,
    pronunciations: "str | os.PathLike[str] | None" = None,
    tos_agreed: bool = False,
) -> "LoadedVoice":
    """Loads and verifies a voice, and computes the latents of its speaker.

    Args:
        name: `demo`; `xtts_v2`, which is downloaded once (2.1 GB, into XTTS_V2_DIR); a voice file
            (`NAME.sotaque`); the folder of an exported or imported voice, an adapter or a base
            model; that of a run, whose best weights speak; or a `checkpoint_epoch_N.pt`. ONNX
            Runtime computes an ONNX voice, PyTorch all others.
        reference: A recording of the speaker, 3 to 30 s of clear speech in any format that
            libsndfile reads. Several of one speaker, as a list of paths or as a folder, are
            combined: the reference switches between them every few seconds. None is the recording
            of the voice.
        speaker: One of the voice's named speakers, such as `anna` or `anna:whisper`; a text changes
            to another with `[voice:ben]` and `[style:whisper]` (docs/text.md).
        base: The folder of the base model of a checkpoint or adapter, if it has moved.
        device: `cpu`, `cuda`, `cuda:N`, or `auto`: a GPU that passes its check, else the CPU.
        precision: `fp32` is exact; `int8` and `int4` round the transformer's weights on a CPU;
            `auto` is the fastest on this device.
        low_memory: Whether to use less memory and more time (docs/onnx.md, LOW_MEMORY).
        pronunciations: A list of pronunciations (docs/text.md); a list in the voice's folder takes
            precedence.
        tos_agreed: Whether you have read and agreed to the non-commercial licence of Coqui's
            XTTS-v2. Its published weights, and every voice made from them, need it.
            COQUI_TOS_AGREED says the same.

    Returns:
        The voice. `sample_rate` is 24,000 Hz; `languages` and `licence` are its model's.

    Raises:
        machine.errors.SotaqueError: The base class of all of these; the message says what is wrong
            and what to do. BundleError: the voice does not exist, is damaged, or lacks a recording
            and `reference` is None. TextError: a list of pronunciations is invalid. AudioError,
            VoiceError: `reference` cannot be used. ArgumentError: an argument has a wrong type or
            value. DeviceError: the GPU does not exist or failed its check.
    """
    from dataclasses import replace

    from machine.settings.loading import SharedSettings, load
    from xtts import arguments
    from xtts.voices import loading, published_voice
    from xtts.voices.base_models import BundleError, ConsentError
    from xtts.voices.voice_files import VoiceSpec, find_voice

    if isinstance(name, str) and name == published_voice.NAME:
        settings, _ = load(SharedSettings)
        tos_agreed = arguments.switch("tos_agreed", tos_agreed) or settings.coqui_tos_agreed
        name = published_voice.provide(published_voice.NAME, replace(settings, coqui_tos_agreed=tos_agreed))
    spec = VoiceSpec.from_arguments(
        name,
        reference=reference,
        speaker=speaker,
        base=base,
        pronunciations=pronunciations,
        tos_agreed=tos_agreed,
    )
    try:
        files = find_voice(spec)
    except ConsentError:
        settings, _ = load(SharedSettings)
        if not settings.coqui_tos_agreed:
            raise
        files = find_voice(replace(spec, tos_agreed=True))
    where, _ = loading.compute_config(files, device, precision, low_memory=low_memory)
    voice = loading.load_voice(files, where)
    if voice.own_voice is None:
        raise BundleError(
            f"{name} does not include a recording. Pass reference=, a recording of the speaker "
            "with 3 to 30 s of clear speech."
        )
    return voice


def synthesize(
    voice: "LoadedVoice",
    text: str,
    language: str = "en",
    *,
    seed: int = 0,
    speed: float = 1.0,
    temperature: float | None = None,
    plain: bool = False,
    takes: int = 1,
) -> "NDArray[np.float32]":
    """Speaks a text of any length.

    Args:
        voice: From `load_voice`.
        text: The text; a long one is split into sentences.
        language: The text's language, one of `voice.languages`.
        seed: A whole number from 0. The same seed gives the same waveform on the same machine;
            another seed gives another take.
        speed: 0.25 to 4. At 2 the speech takes half the time, at the same pitch.
        temperature: The sampling temperature, 0 to 2. 0 always takes the likeliest code; None is
            the model's default.
        plain: Whether Markdown and HTML entities in the text are plain characters (docs/text.md).
        takes: 1 to 16. Speaks that many takes together, and returns the one that is similar to the
            speaker with the fewest word errors (docs/python.md).

    Returns:
        The waveform `[samples]`, float32 in -1..1, mono at `voice.sample_rate` Hz.

    Raises:
        ArgumentError: An argument has a wrong type or is out of bounds.
        TextError: The text has nothing to speak, or the model does not speak the language.
        DecodingError, NotFinite: The model's output is not finite.
    """
    from xtts import arguments
    from xtts.inference.synthesis_request import SynthesisRequest

    request = SynthesisRequest(text, language, seed, temperature, speed, plain=plain)
    if arguments.whole_number("takes", takes, arguments.TAKES) == 1:
        return _checked(voice).synthesize(request)
    from xtts.inference.takes import speak_best

    return speak_best(_checked(voice), request, int(takes))[0].waveform


def stream(
    voice: "LoadedVoice",
    text: str,
    language: str = "en",
    *,
    seed: int = 0,
    speed: float = 1.0,
    temperature: float | None = None,
    plain: bool = False,
) -> "Iterator[NDArray[np.float32]]":
    """Speaks a text in chunks, each as soon as it is computed: a short one first, then longer ones.

    Arguments as for `synthesize`, without `takes`: a take is chosen when it is complete.

    Returns:
        Waveforms `[samples]`, float32 in -1..1, mono at `voice.sample_rate` Hz. Concatenated, they
        equal the result of `synthesize` up to rounding.

    Raises:
        ArgumentError: As `synthesize`, in the call itself.
        TextError: As `synthesize`, when you request the first chunk.
        DecodingError, NotFinite: The model's output is not finite.
    """
    from xtts.inference.synthesis_request import SynthesisRequest

    return _checked(voice).stream(SynthesisRequest(text, language, seed, temperature, speed, plain=plain))


def _checked(voice: object) -> "LoadedVoice":
    from xtts.arguments import ArgumentError, excerpt
    from xtts.inference.loaded_voice import LoadedVoice

    if not isinstance(voice, LoadedVoice):
        raise ArgumentError(f"voice is {excerpt(voice)}; allowed: the result of xtts.load_voice.")
    return voice
