"""A person's clips as a decoder learns them: latents of the GPT, pitches and samples.

Sound, codes and pitches of a clip are computed once in a process, because every epoch learns from
the same clips. Latents are computed when a step draws the clip, and again when other weights speak;
a frozen GPT keeps them.

Importing this module does not import torch.
"""

import hashlib
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xtts.workers.requests import ReportProgress, TranscribedClip

if TYPE_CHECKING:
    from torch import Tensor, nn

    from xtts.inference.voice import Voice
    from xtts.model.loading import Model

log = logging.getLogger(__name__)

# A row is a segment of a clip, in codes of 46 ms. The context on both sides covers the reach of the
# convolutions; it is spoken but not compared.
SEGMENT_CODES, CONTEXT_CODES = 20, 2
ROW_CODES = SEGMENT_CODES + 2 * CONTEXT_CODES
PITCHES_PER_CODE = 4


@dataclass(frozen=True)
class ClipSound:
    """The sound of a clip, which does not depend on the GPT.

    Attributes:
        codes: `[codes]`.
        pitches: `[codes * PITCHES_PER_CODE]`, log2 of Hz; 0 where the measured pitch is uncertain.
        waveform: `[samples]` at 24,000 Hz.
    """

    codes: "Tensor"
    pitches: "Tensor"
    waveform: "Tensor"


@dataclass(frozen=True)
class Row:
    """A segment of a clip on the CPU: latents `[1, codes, width]`, and its pitches and samples."""

    latents: "Tensor"
    pitches: "Tensor"
    waveform: "Tensor"


class SpokenClip:
    """A clip with its latents from the loaded GPT, computed when they are needed. ids: its text."""

    def __init__(
        self, sound: ClipSound, compute_latents: "Callable[[], Tensor]", ids: Sequence[int] = ()
    ) -> None:
        self.sound, self.ids = sound, ids
        self._compute_latents = compute_latents

    @property
    def full_row(self) -> Row:
        """The whole clip as one row."""
        return Row(self._compute_latents(), self.sound.pitches, self.sound.waveform)

    def draw_row(self, rng: random.Random) -> Row:
        """A row of `ROW_CODES` codes at a random place."""
        from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, VOCODER_RATE

        first = rng.randrange(len(self.sound.codes) - ROW_CODES + 1)
        samples_per_code = SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE
        begin, end = round(first * samples_per_code), round((first + ROW_CODES) * samples_per_code)
        codes = slice(first, first + ROW_CODES)
        pitches = self.sound.pitches.unflatten(0, (-1, PITCHES_PER_CODE))[codes].flatten()
        return Row(self._compute_latents()[:, codes], pitches, self.sound.waveform[begin:end])


class ClipCache:
    """The clips of the last request, and their latents for the weights that spoke last."""

    def __init__(self) -> None:
        self._sounds: dict[TranscribedClip, ClipSound | None] = {}
        self._latents: dict[tuple[TranscribedClip, tuple[int, ...]], Tensor] = {}
        self._latents_digest = ""

    def spoken_clips(
        self,
        model: "Model",
        voice: "Voice",
        load_dvae: "Callable[[], nn.Module]",
        clips: Sequence[TranscribedClip],
        progress: ReportProgress,
    ) -> list[SpokenClip]:
        """The clips that a decoder can learn from: not too short, and not longer than the model was
        trained on. As in training, a text is not split, because all of it was spoken in one clip.
        A recording that cannot be read is left out and logged.

        load_dvae: loads the DVAE, which only new clips need.
        """
        from xtts.audio import AudioError

        dvae: nn.Module | None = None
        sounds: dict[TranscribedClip, ClipSound | None] = {}
        spoken, probe_latents = list[SpokenClip](), None
        for clip in clips:
            progress(0.0)
            if clip in self._sounds:
                sounds[clip] = self._sounds[clip]
            else:
                dvae = dvae or load_dvae()
                try:
                    sounds[clip] = read_sound(model, dvae, clip)
                except AudioError as error:
                    log.warning("The decoder learns without a clip. %s", error)
                    sounds[clip] = None
            ids = tuple(model.tokenizer.encode(clip.text, clip.language))
            if (sound := sounds[clip]) is not None and len(ids) <= model.tokenizer.max_tokens:
                spoken.append(SpokenClip(sound, self._latents_of(model, voice, clip, ids, sound), ids))
                if probe_latents is None:
                    probe_latents = forced_latents(model, voice, ids, sound.codes)
        if probe_latents is not None:
            digest = compute_digest(model, voice, probe_latents)
            if digest != self._latents_digest:
                self._latents, self._latents_digest = {}, digest
        self._sounds = sounds
        self._latents = {key: latents for key, latents in self._latents.items() if key[0] in sounds}
        return spoken

    def _latents_of(
        self, model: "Model", voice: "Voice", clip: TranscribedClip, ids: tuple[int, ...], sound: ClipSound
    ) -> "Callable[[], Tensor]":
        def compute_latents() -> "Tensor":
            if (clip, ids) not in self._latents:
                self._latents[clip, ids] = forced_latents(model, voice, ids, sound.codes).cpu()
            return self._latents[clip, ids]

        return compute_latents


def read_sound(model: "Model", dvae: "nn.Module", clip: TranscribedClip) -> ClipSound | None:
    """The sound of a clip; None if it is too short, or longer than the model was trained on. Raises
    AudioError."""
    import torch

    from xtts import audio
    from xtts.evaluation.pitch import pitch_course

    waveform = audio.read(clip.recording, audio.CODE_RATE)
    num_codes = -(-len(waveform) // audio.SAMPLES_PER_CODE)
    if not ROW_CODES <= num_codes <= model.config.gpt.max_audio_tokens:
        return None
    with torch.no_grad():
        # The DVAE runs only here, so it stays on the CPU with the mel.
        mel = audio.dvae_mel(waveform[None], model.mel_stats.cpu())
        codes = dvae.get_codebook_indices(mel)[0, :num_codes]  # type: ignore[operator]
    pitches = pitch_course(
        waveform,
        audio.CODE_RATE,
        num_codes * PITCHES_PER_CODE,
        audio.SAMPLES_PER_CODE / audio.CODE_RATE / PITCHES_PER_CODE,
    )
    return ClipSound(codes, pitches, audio.read(clip.recording, audio.VOCODER_RATE))


def forced_latents(model: "Model", voice: "Voice", ids: Sequence[int], codes: "Tensor") -> "Tensor":
    """The latents `[1, codes, width]` of existing codes, as if these were decoded one by one."""
    import torch

    gpt, codes = model.gpt, codes.to(model.device)
    with torch.no_grad():
        prefix = gpt.prefix(voice.latents, torch.tensor(ids, device=model.device))
        inputs = torch.cat((codes.new_tensor([gpt.shape.audio_start]), codes[:-1]))
        positions = torch.arange(len(inputs), device=model.device)
        embedded = gpt.mel_embedding(inputs) + gpt.mel_pos_embedding(positions)
        hidden = gpt.final_norm(gpt.gpt(torch.cat((prefix, embedded[None]), dim=1)))
    return hidden[:, prefix.shape[1] :].float()


def compute_digest(model: "Model", voice: "Voice", probe_latents: "Tensor") -> str:
    """A hash of what latents depend on besides their clip: the GPT's weights and the voice.

    probe_latents: of any clip; they tell packed matrices apart, which no state dictionary holds.
    """
    import torch

    digest = hashlib.sha256()
    for name, value in (*model.gpt.state_dict().items(), ("", voice.latents), ("", probe_latents)):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
