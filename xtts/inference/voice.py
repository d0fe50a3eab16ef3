"""Voice: conditioning latents and speaker embedding of a recording, and speaker similarity."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from machine.errors import SotaqueError
from xtts import audio, joined_reference, speech_span
from xtts.audio import CODE_RATE, SPEAKER_RATE, conditioning_mel, resample
from xtts.inference.speech import Voice as Voice
from xtts.joined_reference import Reference
from xtts.model.config import ModelConfig
from xtts.model.loading import Model

# Coqui drops a last chunk shorter than this. We also refuse a reference that is shorter.
MIN_CHUNK_SECONDS = 0.33
# The start of speech is searched in the first minute, or in ten as long as all is below the
# threshold of silence.
_BLOCK_SECONDS, _SEARCHED_SECONDS, _MAX_SILENCE_SECONDS = 10.0, 60.0, 600.0
_SILENCE_DB = -50.0


class VoiceError(SotaqueError):
    """A reference recording that cannot be used: too short, silent or not finite."""


def read_reference(config: ModelConfig, reference: Reference) -> Tensor:
    """The part of a recording that the model needs, from the start of its speech: `[samples]` at
    22,050 Hz. Several recordings alternate (`xtts.joined_reference`).

    Raises AudioError, and VoiceError as `voice_from_reference`. Decodes at most ten minutes,
    because a small FLAC file can contain hours.
    """
    params = config.conditioning
    seconds = max(params.total_seconds, params.speaker_seconds)
    if isinstance(reference, Path):
        return _read_speech(reference, seconds, "The reference")
    recordings = [_read_speech(path, seconds, f"The reference {path}").numpy() for path in reference]
    return torch.from_numpy(joined_reference.for_conditioning(recordings, CODE_RATE, params))


def _read_speech(path: Path, seconds: float, subject: str) -> Tensor:
    """`seconds` of a recording from the start of its speech. subject: the recording, in messages."""
    start = _speech_start_seconds(path)
    waveform = audio.read(path, CODE_RATE, max_seconds=seconds, start_seconds=start)
    _check_waveform(waveform, subject)
    return waveform


def _speech_start_seconds(path: Path) -> float:
    """The start of speech in a recording. Stores its levels, not its samples."""
    levels, remainder, rate = list[np.ndarray](), np.zeros(0, np.float32), CODE_RATE
    # `audio.read` refuses non-finite samples.
    with np.errstate(invalid="ignore", over="ignore"):
        for number, (block, rate) in enumerate(audio.blocks(path, _BLOCK_SECONDS), start=1):
            block_levels, remainder = speech_span.levels_in_parts(remainder, block, rate)
            levels.append(block_levels)
            seconds = number * _BLOCK_SECONDS
            loudest = max(float(part.max(initial=speech_span.FLOOR_DB)) for part in levels)
            if seconds >= _MAX_SILENCE_SECONDS or (seconds >= _SEARCHED_SECONDS and loudest > _SILENCE_DB):
                break
        return speech_span.speech_start(np.concatenate(levels), rate) / rate if levels else 0.0


@torch.inference_mode()
def voice_from_reference(model: Model, waveform: Tensor, embedding: Tensor | None = None) -> Voice:
    """A voice from one recording `[samples]` at 22,050 Hz, as `Xtts.get_conditioning_latents`.

    embedding: the recording's speaker embedding [1, 512, 1], if it was computed before; training does
    not change it. Raises VoiceError for less than 0.33 s, silence or non-finite values: NaN would
    reach the sampling, and on a GPU destroy the CUDA context.
    """
    _check_waveform(waveform)
    with model.listening():
        if embedding is None:
            embedding = speaker_embedding(model, waveform)
        return Voice(conditioning_latents(model, waveform), embedding)


@torch.inference_mode()
def conditioning_latents(model: Model, waveform: Tensor) -> Tensor:
    """Latents `[1, 32, width]`: the mean over chunks of the recording's first seconds."""
    params = model.config.conditioning
    waveform = waveform[: int(params.total_seconds * CODE_RATE)]
    chunks = waveform.split(int(params.chunk_seconds * CODE_RATE))
    latents = [
        model.gpt.conditioning_latents(conditioning_mel(chunk[None], model.mel_stats).to(model.device))
        for chunk in chunks
        if len(chunk) >= MIN_CHUNK_SECONDS * CODE_RATE
    ]
    return torch.stack(latents).mean(0)


@torch.inference_mode()
def speaker_embedding(model: Model, waveform: Tensor, rate: int = CODE_RATE) -> Tensor:
    """The speaker embedding `[1, 512, 1]` of a recording `[samples]`. Training does not change
    it."""
    waveform = waveform[: int(model.config.conditioning.speaker_seconds * rate)]
    return model.speaker_encoder(resample(waveform, rate, SPEAKER_RATE)[None])


def similarity(model: Model, waveform: Tensor, rate: int, voice: Voice) -> float:
    """The cosine similarity of a recording's speaker embedding to that of a voice, by the model's
    speaker encoder; 1 is the same speaker."""
    embedding = speaker_embedding(model, waveform, rate)
    return float(torch.dot(embedding.flatten(), voice.speaker.flatten()))


def _check_waveform(waveform: Tensor, subject: str = "The reference") -> None:
    seconds = waveform.shape[-1] / CODE_RATE
    if seconds < MIN_CHUNK_SECONDS:
        raise VoiceError(
            f"{subject} is {seconds:.2f} s long. A voice needs at least {MIN_CHUNK_SECONDS} s; "
            "3 to 30 s are better."
        )
    if not bool(torch.isfinite(waveform).all()):
        raise VoiceError(f"{subject} contains non-finite values (NaN or infinite).")
    if float(waveform.abs().max()) < speech_span.SILENT_PEAK:
        raise VoiceError(f"{subject} is silent: no sample is above -60 dB.")
