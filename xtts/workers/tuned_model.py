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
    """The frozen parts, loaded once, and the GPT that the last request needed.

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
        # If training needs the memory between two samples, no steps are recorded.
        self.model.vocoder.warm_up(records=keep_weights)
        self._heads: tuple[tuple[int, int], ...] | None = None
        self._loaded: tuple[str, int, float] | None = ("", 0, 1.0)
        self._heard: tuple[Tensor, Tensor] | None = None
        self._recogniser: tuple[tuple[str, str], Recogniser] | None = None
        self.let_go()

    def mark(self, asked: TunedVoice) -> Mark:
        """The mark of speech with these weights: the name of the checkpoint or the base."""
        return Mark(self.base.name if asked.weights is None else asked.weights.stem)

    def reading(self, asked: TunedVoice) -> "tuple[Model, Tensor]":
        """The model with the tokenizer and the pronunciations of these weights' run, or else of the
        model's folder; and the reference recording. Does not load the weights."""
        from xtts.inference import voice
        from xtts.text.pronunciations import PRONUNCIATIONS_FILE
        from xtts.text.tokenizer import Tokenizer
        from xtts.voices import run_folder

        config, folder = self.model.config, self.base
        if (weights := asked.weights) is not None:
            normalizer = run_folder.normalizer_of(run_folder.read_checkpoint(weights).provenance)
            config, folder = replace(config, normalizer=normalizer), weights.parent.parent
        model, pronunciations = self.model, folder / PRONUNCIATIONS_FILE
        if weights is not None or pronunciations.is_file():
            tokenizer = Tokenizer(config, self.base, (pronunciations,) if pronunciations.is_file() else ())
            model = replace(model, config=config, tokenizer=tokenizer)
        return model, voice.read_reference(config, asked.reference)

    def speaking(self, reading: "tuple[Model, Tensor]", asked: TunedVoice) -> "tuple[Model, Voice]":
        """The model with the requested weights, and the speaker's voice. reading: the result of
        `reading`."""
        self._take(None if asked.of_base else asked.weights, asked.share)
        model, recording = reading
        model, whose = replace(model, gpt=self.model.gpt), self._voice_of(recording)
        if asked.decoder is not None:
            tensors = learned_decoder.read_tensors(asked.decoder)
            whose = replace(whose, vocoder=model.new_vocoder(tensors))
        return model, whose

    def let_go(self) -> None:
        """Frees the GPT after a request, unless `keep_weights` is set."""
        if not self.keep_weights:
            self.unload()
            # On a GPU, this also returns the memory of recorded steps and their keys and values to
            # the trainer.
            recovery.free_after_fault(self.compute.device)

    def unload(self) -> None:
        """Frees the GPT, so that the next request must load it again."""
        self.model.unload_gpt()
        self._loaded = None

    def guard(self, whose: "Voice", seed: int) -> "Guard | None":
        """The guard for speech with this voice; None if the guard is off."""
        from xtts.inference.alignment import heads
        from xtts.inference.alignment.guarded_piece import Guard
        from xtts.inference.torch_backend import TorchBackend

        if not self.compute.guard:
            return None
        if self._heads is None:
            config = self.model.config
            self._heads = config.alignment_heads
            if self._heads is None and config.weights == "random":
                self._heads = ()
            elif self._heads is None:
                # Fine-tuning does not move them, so they are measured once.
                self._heads = heads.measure(TorchBackend(self.model), whose)
        return Guard(self._heads, self.model.tokenizer.spoken_positions, seed)

    def recogniser(self, name: str, language: str) -> "Recogniser | None":
        """The recogniser for a language, opened once. None without a name or a language."""
        import torch

        from xtts.evaluation import recogniser

        if not name or not language:
            return None
        key = (name, language)
        if self._recogniser is None or self._recogniser[0] != key:
            self._recogniser = (key, recogniser.open_recogniser(*key, torch.get_num_threads()))
        return self._recogniser[1]

    @cached_property
    def naturalness(self) -> "NaturalnessJudge | None":
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
            raise SotaqueError(f"Voices cannot be compared: {speaker_judge.missing()}.")
        return speaker_judge.SpeakerJudge(path)

    def _voice_of(self, reference: "Tensor") -> "Voice":
        """The voice of a recording. Its speaker embedding is cached, because all epochs of a run
        have the same reference."""
        from xtts.inference import voice

        embedding = None
        if self._heard is not None and self._heard[0].equal(reference):
            embedding = self._heard[1]
        whose = voice.voice_from_reference(self.model, reference, embedding)
        self._heard = (reference, whose.speaker)
        return whose

    def _take(self, weights: Path | None, share: float) -> None:
        from xtts.model import loading
        from xtts.model.blending import blend
        from xtts.voices import run_folder

        key = (str(weights), os.stat(weights).st_mtime_ns, share) if weights else ("", 0, 1.0)
        if key == self._loaded:
            return
        # After an error, the next request must not use half-loaded weights. Two sets of weights at
        # once would need 3.6 GB.
        self.unload()
        if weights and share < 1:
            tuned = run_folder.read_checkpoint(weights).model
            base = loading.read_tensors(self.base / "model.pth")
            self.model.load_gpt(blend(base, tuned, share, self.model.config.unlearned))
        elif weights:
            self.model.load_gpt(run_folder.read_checkpoint(weights).model)
        else:
            self.model.load_gpt(loading.read_tensors(self.base / "model.pth"))
        self._loaded = key
