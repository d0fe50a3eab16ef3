"""TunedModel: a base model with the GPT of the most recently requested checkpoint.

Importing this module does not import torch.
"""

import logging
import os
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from machine.devices import recovery
from machine.devices.current_gpu import make_current
from machine.errors import SotaqueError
from xtts import marks
from xtts.inference.compute_config import ComputeConfig
from xtts.marks import Mark
from xtts.voices import learned_decoder
from xtts.workers.decoder_clips import ClipCache
from xtts.workers.requests import TunedVoice

if TYPE_CHECKING:
    from torch import Tensor

    from xtts.evaluation.naturalness import NaturalnessJudge
    from xtts.evaluation.recogniser import Recogniser
    from xtts.evaluation.speaker_judge import SpeakerJudge
    from xtts.inference.alignment.guarded_piece import Guard
    from xtts.inference.voice import Voice
    from xtts.model.loading import Model

log = logging.getLogger(__name__)


class TunedModel:
    """The frozen parts of a base, loaded once, and the GPT that the last request needed.

    It never shares weights with a model in training. keep_weights: False frees the GPT between
    requests (1.8 GB at full size), for callers that need other weights each time.
    """

    def __init__(self, base: Path, compute: ComputeConfig, *, keep_weights: bool = True) -> None:
        from xtts.model import loading

        make_current(compute.device)
        marks.use_watermark(compute.watermark)
        self.base = base
        self.compute = compute
        self.keep_weights = keep_weights
        self.clips = ClipCache()  # what decoders learn from
        self.model: Model = loading.load_model(
            base, compute.device, compute.mel_device, precision=compute.precision
        )
        # Recorded steps take memory, which training may need between two samples.
        self.model.vocoder.warm_up(records=keep_weights)
        self._alignment_heads: tuple[tuple[int, int], ...] | None = None
        # The path, modification time and share of the loaded weights; None while none are loaded.
        self._weights_key: tuple[str, int, float] | None = ("", 0, 1.0)
        # The last reference recording and its speaker embedding.
        self._last_speaker: tuple[Tensor, Tensor] | None = None
        # The last recogniser with its name and language.
        self._last_recogniser: tuple[tuple[str, str], Recogniser] | None = None
        self.free_gpt()

    def mark_of(self, tuned_voice: TunedVoice) -> Mark:
        """The mark of speech with these weights: the name of the checkpoint or the base."""
        return Mark(self.base.name if tuned_voice.weights is None else tuned_voice.weights.stem)

    def read_reference(self, tuned_voice: TunedVoice) -> "tuple[Model, Tensor]":
        """The model that reads texts, and the reference recording. Does not load the weights.

        Tokenizer and pronunciations are those of the weights' run, or else of the base.
        """
        from xtts.inference import voice
        from xtts.text.pronunciations import PRONUNCIATIONS_FILE
        from xtts.text.tokenizer import Tokenizer
        from xtts.voices import run_folder

        config, folder = self.model.config, self.base
        if (weights := tuned_voice.weights) is not None:
            normalizer = run_folder.normalizer_of(run_folder.read_checkpoint(weights).provenance)
            config, folder = replace(config, normalizer=normalizer), weights.parent.parent
        model, pronunciations = self.model, folder / PRONUNCIATIONS_FILE
        if weights is not None or pronunciations.is_file():
            tokenizer = Tokenizer(config, self.base, (pronunciations,) if pronunciations.is_file() else ())
            model = replace(model, config=config, tokenizer=tokenizer)
        return model, voice.read_reference(config, tuned_voice.reference)

    def load_voice(
        self, model: "Model", reference: "Tensor", tuned_voice: TunedVoice
    ) -> "tuple[Model, Voice]":
        """The model with the requested weights, and the speaker's voice. model, reference: from
        `read_reference`."""
        self._load_gpt(None if tuned_voice.of_base else tuned_voice.weights, tuned_voice.share)
        model, voice = replace(model, gpt=self.model.gpt), self._voice_of(reference)
        if tuned_voice.decoder is not None:
            tensors = learned_decoder.read_tensors(tuned_voice.decoder)
            voice = replace(voice, vocoder=model.new_vocoder(tensors))
        return model, voice

    def free_gpt(self) -> None:
        """Frees the GPT after a request, unless `keep_weights` is set."""
        if not self.keep_weights:
            self.unload()
            # On a GPU, this also returns the memory of recorded steps and their keys and values to
            # the trainer.
            recovery.free_after_fault(self.compute.device)

    def unload(self) -> None:
        """Frees the GPT, so that the next request must load it again."""
        self.model.unload_gpt()
        self._weights_key = None

    def new_guard(self, voice: "Voice", seed: int) -> "Guard | None":
        """The guard for speech with this voice; None if the guard is off."""
        from xtts.inference.alignment import heads
        from xtts.inference.alignment.guarded_piece import Guard
        from xtts.inference.torch_backend import TorchBackend

        if not self.compute.guard:
            return None
        if self._alignment_heads is None:
            config = self.model.config
            self._alignment_heads = config.alignment_heads
            if self._alignment_heads is None and config.weights == "random":
                self._alignment_heads = ()
            elif self._alignment_heads is None:
                # Fine-tuning does not change which heads follow the text, so one measurement is enough.
                self._alignment_heads = heads.measure(TorchBackend(self.model), voice)
        return Guard(self._alignment_heads, self.model.tokenizer.spoken_positions, seed)

    def open_recogniser(self, name: str, language: str) -> "Recogniser | None":
        """The recogniser for a language, which later calls return again; None without a name or a
        language."""
        import torch

        from xtts.evaluation import recogniser

        if not name or not language:
            return None
        key = (name, language)
        if self._last_recogniser is None or self._last_recogniser[0] != key:
            self._last_recogniser = (key, recogniser.open_recogniser(*key, torch.get_num_threads()))
        return self._last_recogniser[1]

    @cached_property
    def naturalness_judge(self) -> "NaturalnessJudge | None":
        """The judge of naturalness; None if it cannot be opened, which is logged."""
        from xtts.evaluation.naturalness import NaturalnessJudge

        try:  # its FFT runs on the mel's device
            return NaturalnessJudge(self.compute.mel_device)
        except Exception as error:
            log.warning("Naturalness is not judged: distillmos cannot be opened (%s).", error)
            return None

    @cached_property
    def speaker_judge(self) -> "SpeakerJudge":
        """The judge of voices. Raises SotaqueError without its package."""
        from xtts.evaluation import speaker_judge

        path = speaker_judge.weights_file()
        if path is None:
            raise SotaqueError(f"Voices cannot be compared: {speaker_judge.missing_reason()}.")
        return speaker_judge.SpeakerJudge(path)

    def _voice_of(self, reference: "Tensor") -> "Voice":
        """The voice of a recording. Its speaker embedding is cached, because all epochs of a run
        have the same reference."""
        from xtts.inference.voice import voice_from_reference

        embedding = None
        if self._last_speaker is not None and self._last_speaker[0].equal(reference):
            embedding = self._last_speaker[1]
        voice = voice_from_reference(self.model, reference, embedding)
        self._last_speaker = (reference, voice.speaker)
        return voice

    def _load_gpt(self, weights: Path | None, share: float) -> None:
        from xtts.model import loading
        from xtts.model.blending import blend
        from xtts.voices import run_folder

        key = (str(weights), os.stat(weights).st_mtime_ns, share) if weights else ("", 0, 1.0)
        if key == self._weights_key:
            return
        # Before loading, because two sets of weights need 3.6 GB, and because a request after an
        # error must not use half-loaded weights.
        self.unload()
        if weights and share < 1:
            tuned = run_folder.read_checkpoint(weights).model
            base = loading.read_tensors(self.base / "model.pth")
            self.model.load_gpt(blend(base, tuned, share, self.model.config.unlearned))
        elif weights:
            self.model.load_gpt(run_folder.read_checkpoint(weights).model)
        else:
            self.model.load_gpt(loading.read_tensors(self.base / "model.pth"))
        self._weights_key = key
