"""The model: reads a voice from disk and speaks with it.

From a notebook, in four lines:

>>> import soundfile, xtts
>>> voice = xtts.load_voice("demo")
>>> waveform = xtts.synthesize(voice, "Good morning.")
>>> soundfile.write("out.wav", waveform, voice.sample_rate)

The first argument of `load_voice` is `demo` (the voice in the package), the folder of a bundle or
of an ONNX voice (`python -m train export`), or a checkpoint of a run. `reference` is a recording of
another person as the speaker:

>>> voice = xtts.load_voice("demo", reference="anna.wav")
>>> waveform = xtts.synthesize(voice, "Good morning.", language="en", seed=3, speed=1.2)

`stream` returns the same speech in chunks, the first one after a fraction of a second:

>>> for chunk in xtts.stream(voice, "Good morning. It is a long story."):
...     play(chunk)

Importing this package does no work: torch is imported by the first `load_voice`; for an ONNX voice
only where it takes a `reference`.

Sub-packages: `model` (GPT, vocoder, loading), `text` (tokenizer), `inference` (latents, decoding,
batching), `onnx` (export, and speech without torch), `workers` (speech in processes that may die),
`voices` (base models, bundles and run folders on disk), `download` (the published model).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    import numpy as np

    from xtts.inference.loaded_voice import LoadedVoice

__all__ = ["load_voice", "stream", "synthesize"]


def load_voice(
    name: "str | os.PathLike[str]" = "demo",
    *,
    reference: "str | os.PathLike[str] | None" = None,
    base: "str | os.PathLike[str] | None" = None,
    device: str = "cpu",
    precision: str = "auto",
    low_memory: bool = False,
    pronunciations: "str | os.PathLike[str] | None" = None,
    tos_agreed: bool = False,
) -> "LoadedVoice":
    """Loads a voice, verified, and the latents of who speaks.

    Args:
        name: `demo`, the folder of a bundle, of a base model or of an ONNX voice, or a
            `checkpoint_epoch_N.pt`. An ONNX voice is computed by ONNX Runtime, all others by
            PyTorch.
        reference: A recording of who is to speak, 3 to 30 s of clear speech in any format that
            libsndfile reads. None is the voice's own recording.
        base: The folder of a checkpoint's base model, where it is no longer at the path that the
            checkpoint names.
        device: `cpu`, `cuda`, `cuda:N`, or `auto`: the GPU where it works, else the CPU.
        precision: `fp32` is exact; `int8` and `int4` round the transformer's weights on a CPU;
            `auto` is what is fastest on this device.
        low_memory: Takes less memory and more time (docs/onnx.md, LOW_MEMORY).
        pronunciations: A list of how words are said (docs/text.md); a list in the voice's own
            folder wins over it.
        tos_agreed: You have read and agreed to the non-commercial licence of Coqui's XTTS-v2;
            needed to load a folder of its published weights.

    Returns:
        The voice. `sample_rate` is 24,000 Hz; `languages` and `licence` are its model's.

    Raises:
        machine.errors.SotaqueError: Its message says what is wrong and what to do. BundleError:
            there is no such voice, it is damaged, or it holds no recording of its own and
            `reference` is None. TextError: a list of pronunciations cannot be used. AudioError,
            VoiceError: `reference` cannot be used. ArgumentError: an argument is no path, no
            precision or no switch. DeviceError: that GPU is absent or failed its check.
    """
    from xtts.voices import loading
    from xtts.voices.base_models import BundleError
    from xtts.voices.voice_files import VoiceSpec, find_voice

    files = find_voice(VoiceSpec.from_arguments(
        name, reference=reference, base=base, pronunciations=pronunciations, tos_agreed=tos_agreed
    ))  # fmt: skip
    where, _ = loading.compute_config(files, device, precision, low_memory=low_memory)
    voice = loading.load_voice(files, where)
    if voice.own is None:
        raise BundleError(
            f"{name} holds no recording of its own: pass reference=, a recording of who is to "
            "speak, 3 to 30 s of clear speech."
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
) -> "np.ndarray[Any, Any]":
    """Speaks a text of any length.

    Args:
        voice: From `load_voice`.
        text: What to speak; a long text is split into sentences.
        language: The text's language, one of `voice.languages`.
        seed: A whole number from 0. The same seed gives the same waveform on the same machine;
            another one, another take.
        speed: 0.25 to 4: 2 takes half the time, 0.5 twice; the pitch stays.
        temperature: 0 to 2, how freely codes are drawn: 0 is always the likeliest; None is the
            model's own.

    Returns:
        The waveform `[samples]`, float32 in -1..1, mono at `voice.sample_rate` Hz.

    Raises:
        ArgumentError: An argument is of another type, or out of these bounds, which are HTTP's too.
        TextError: The text holds nothing that can be spoken, or the model has not that language.
        DecodingError, NotFinite: The model's output is not finite.
    """
    from xtts.inference.synthesis_request import SynthesisRequest

    return _checked(voice).synthesize(SynthesisRequest(text, language, seed, temperature, speed))


def stream(
    voice: "LoadedVoice",
    text: str,
    language: str = "en",
    *,
    seed: int = 0,
    speed: float = 1.0,
    temperature: float | None = None,
) -> "Iterator[np.ndarray[Any, Any]]":
    """Speaks a text in chunks, each as soon as it is computed: a short one first, then longer ones.

    Args: as `synthesize`.

    Returns:
        Waveforms `[samples]`, float32 in -1..1, mono at `voice.sample_rate` Hz. Joined they are
        what `synthesize` returns, up to rounding.

    Raises:
        ArgumentError: As `synthesize`, at once.
        TextError: When the first chunk is asked for; as `synthesize`.
        DecodingError, NotFinite: The model's output is not finite.
    """
    from xtts.inference.synthesis_request import SynthesisRequest

    return _checked(voice).stream(SynthesisRequest(text, language, seed, temperature, speed))


def _checked(voice: object) -> "LoadedVoice":
    from xtts.arguments import ArgumentError, shown
    from xtts.inference.loaded_voice import LoadedVoice

    if not isinstance(voice, LoadedVoice):
        raise ArgumentError(f"voice is {shown(voice)}; allowed: what xtts.load_voice returns.")
    return voice
