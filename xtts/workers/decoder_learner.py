"""DecoderLearner trains a person's vocoder against discriminators, one step per call.

HiFi-GAN and vocoders with an oscillator (`xtts.model.source_filter`) learn alike: a spectral
distance, an adversarial loss and feature matching. With an oscillator, the sound to compare has the
pitch of the recording, since harmonics elsewhere would count as errors of the filters; the
predicted pitch has a separate loss.

The decoder that speaks is an average over the last steps, so every step leaves a usable decoder. A
falling learning rate would have to know the last step in advance.
"""

import copy
import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, VOCODER_RATE
from xtts.eager_optimizer import eager
from xtts.evaluation.spectral_distance import spectral_distance
from xtts.model.discriminators import Discriminators, discriminator_loss, generator_losses
from xtts.model.quantization import BF16_CAPABILITY, vocoder_type
from xtts.model.source_filter import SourceFilter, pitch_at_steps
from xtts.model.vocoder import Vocoder
from xtts.workers.decoder_clips import CONTEXT_CODES, Row, SpokenClip
from xtts.workers.decoder_schedule import (
    BETAS,
    DISCRIMINATOR_CHANNELS,
    DISCRIMINATOR_RATE,
    LEARNING_RATE,
    MATCHING_WEIGHT,
    MAX_FRUITLESS_CHECKS,
    MAX_GRADIENT_NORM,
    MEL_WEIGHT,
    MIN_IMPROVEMENT,
    PITCH_WEIGHT,
    ROWS_PER_STEP,
    STEPS_PER_CHECK,
    WARM_UP_STEPS,
    average_decay,
)


class DecoderLearner:
    """A vocoder, its average, the discriminators and both optimizers.

    Args:
        vocoder: The initial one, on the device to train on, weight norm folded.
        discriminators: Those of the base; None begins with random weights, which learn alone for
            `WARM_UP_STEPS` steps.
        speaker: The speaker embedding `[1, 512, 1]`.
        fft_device: Computes the spectrograms; the CPU if the GPU's FFT is faulty.
        rate: The vocoder's learning rate.

    Attributes:
        average: The vocoder that speaks.
        step: The number of steps of the vocoder.
        warm_up_steps: The number of steps in which the discriminators learn alone.
        warm_up_done: How many of these are done.
        best_ratio: The smallest ratio of the held-out distance to the base's.
        checks_since_best: The number of checks since then.
    """

    def __init__(
        self,
        vocoder: Vocoder,
        discriminators: Discriminators | None,
        speaker: Tensor,
        fft_device: torch.device | str = "cpu",
        *,
        seed: int = 0,
        rate: float = LEARNING_RATE,
    ) -> None:
        self.device = next(vocoder.parameters()).device
        self.fft_device = torch.device(fft_device)
        self.vocoder = vocoder.train().requires_grad_(True)
        self.average = copy.deepcopy(vocoder).eval().requires_grad_(False)
        self.warm_up_steps = WARM_UP_STEPS if discriminators is None else 0
        self.discriminators = (
            (discriminators or _new_discriminators(seed, DISCRIMINATOR_CHANNELS)).to(self.device).train()
        )
        # A copy: a voice's tensors come from inference mode, and autograd cannot save those.
        self.speaker = speaker.detach().float().to(self.device).clone()
        self.seed, self.step, self.warm_up_done = seed, 0, 0
        self.best_ratio, self.checks_since_best = 1.0, 0
        self._vocoder_optimizer = _new_optimizer(self.vocoder, rate)
        self._discriminator_optimizer = _new_optimizer(self.discriminators, DISCRIMINATOR_RATE)

    def learn(self, clips: Sequence[SpokenClip]) -> None:
        """Takes one step, from rows that depend only on the seed and the step's number. During the
        warm-up only the discriminators change."""
        rng = random.Random(f"{self.seed} {self.warm_up_done + self.step}")
        rows = [rng.choice(clips).draw_row(rng) for _ in range(ROWS_PER_STEP)]
        is_warm_up = self.warm_up_done < self.warm_up_steps
        with torch.set_grad_enabled(not is_warm_up):
            sound, recording, pitch_error = self._sound_of(self.vocoder, rows)
        with self._low_precision(on_cpu=_convolves_quickly()):
            loss = discriminator_loss(self.discriminators, recording, sound.detach())
        _descend(self._discriminator_optimizer, self.discriminators, loss)
        if is_warm_up:
            self.warm_up_done += 1
            return
        with self._low_precision(on_cpu=_convolves_quickly()):
            adversarial, matching = generator_losses(self.discriminators, recording, sound)
        distance = spectral_distance(sound, recording).to(self.device)
        loss = MEL_WEIGHT * distance + adversarial + MATCHING_WEIGHT * matching
        _descend(self._vocoder_optimizer, self.vocoder, loss + PITCH_WEIGHT * pitch_error)
        self.step += 1
        decay = average_decay(self.step)
        with torch.no_grad():
            for mean, new in zip(self.average.parameters(), self.vocoder.parameters(), strict=True):
                mean.lerp_(new, 1 - decay)

    @torch.no_grad()
    def distance(self, vocoder: Vocoder, clips: Sequence[SpokenClip]) -> float:
        """The mean distance of whole clips, with the predicted pitch's error in octaves."""
        distances = []
        for clip in clips:
            sound, recording, pitch_error = self._sound_of(vocoder, [clip.full_row])
            distances.append(float(spectral_distance(sound, recording)) + float(pitch_error))
        return fmean(distances)

    def check_progress(self, held_out: Sequence[SpokenClip], base_distance: float) -> None:
        """Compares the distance of held-out clips with the smallest so far, every `STEPS_PER_CHECK` steps.

        Args:
            base_distance: Their distance with the base's vocoder and the same latents, so that the
                distances with different GPT weights can be compared.
        """
        if self.step % STEPS_PER_CHECK:
            return
        ratio = self.distance(self.average, held_out) / max(base_distance, 1e-9)
        has_improved = ratio < self.best_ratio - MIN_IMPROVEMENT
        self.checks_since_best = 0 if has_improved else self.checks_since_best + 1
        self.best_ratio = min(self.best_ratio, ratio)

    @property
    def finished(self) -> bool:
        """Whether held-out clips have stopped improving."""
        return self.checks_since_best >= MAX_FRUITLESS_CHECKS

    def _sound_of(self, vocoder: Vocoder, rows: Sequence[Row]) -> tuple[Tensor, Tensor, Tensor]:
        """The sound and the recordings `[rows, samples]` without their context, on `fft_device`;
        and the error of the predicted pitch. Weights and losses stay float32."""
        latents = torch.cat([row.latents for row in rows]).to(self.device)
        pitches = torch.stack([row.pitches for row in rows]).to(self.device)
        speaker = self.speaker.expand(len(rows), -1, -1)
        with self._low_precision(on_cpu=vocoder_type() == torch.bfloat16):
            sound, pitch_error = vocode(vocoder, latents, pitches, speaker)
        # A clip ends inside its last code, and a code is not a whole number of samples.
        length = min(sound.shape[1], *(len(row.waveform) for row in rows))
        context_samples = round(CONTEXT_CODES * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
        inside = slice(context_samples, length - context_samples)
        recording = torch.stack([row.waveform[inside] for row in rows])
        return sound[:, inside].to(self.fft_device), recording.to(self.fft_device), pitch_error

    def _low_precision(self, *, on_cpu: bool) -> AbstractContextManager[None]:
        """A context for products in bfloat16, where these are fast."""
        if self.device.type == "cpu":
            is_fast = on_cpu
        else:
            is_fast = torch.cuda.get_device_capability(self.device) >= BF16_CAPABILITY
        return torch.autocast(self.device.type, torch.bfloat16, enabled=is_fast)

    # The state between two requests

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on besides clips and GPT, for `torch.save`."""
        return {
            "seed": self.seed,
            "step": self.step,
            "alone": self.warm_up_done,
            "warm_up": self.warm_up_steps,
            "closest": self.best_ratio,
            "farther": self.checks_since_best,
            "channels": self.discriminators.channels,
            "vocoder": self.vocoder.state_dict(),
            "average": self.average.state_dict(),
            "discriminators": self.discriminators.state_dict(),
            "moments": [_moments(self._vocoder_optimizer), _moments(self._discriminator_optimizer)],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from a `state`, which may come from another device with another memory layout of
        convolutions."""
        self.seed, self.step = state["seed"], state["step"]
        self.warm_up_done, self.warm_up_steps = state["alone"], state["warm_up"]
        self.best_ratio, self.checks_since_best = state["closest"], state["farther"]
        if state["channels"] != self.discriminators.channels:
            discriminators = _new_discriminators(self.seed, state["channels"])
            self.discriminators = discriminators.to(self.device).train()
            self._discriminator_optimizer = _new_optimizer(self.discriminators, DISCRIMINATOR_RATE)
        for module, name in (
            (self.vocoder, "vocoder"),
            (self.average, "average"),
            (self.discriminators, "discriminators"),
        ):
            with torch.no_grad():
                for key, tensor in module.state_dict().items():
                    tensor.copy_(state[name][key].reshape(tensor.shape))
        vocoder_moments, discriminator_moments = state["moments"]
        _load_moments(self._vocoder_optimizer, vocoder_moments)
        _load_moments(self._discriminator_optimizer, discriminator_moments)


def _convolves_quickly() -> bool:
    """Whether this CPU convolves the discriminators' few channels faster in bfloat16, which takes 0.6
    times as long as float32 with AVX-512, but 1.2 times as long with AMX."""
    return torch.cpu._is_avx512_bf16_supported() and not torch.cpu._is_amx_tile_supported()


def vocode(vocoder: Vocoder, latents: Tensor, pitches: Tensor, speaker: Tensor) -> tuple[Tensor, Tensor]:
    """The waveform `[rows, samples]` with the recordings' pitches if these are certain, and the L1
    of the predicted ones in octaves; 0 without an oscillator."""
    decoder = vocoder.waveform_decoder
    if not isinstance(decoder, SourceFilter):
        return vocoder(latents, speaker).float(), latents.new_zeros(())
    steps = vocoder.latent_steps(latents)
    height, voicing = (part.float() for part in decoder.predicted_pitch(steps, speaker))
    measured, sure = pitch_at_steps(pitches, steps.shape[2])
    used = torch.where(sure > 0, measured, height)
    voiced = (voicing.detach() > 0).float()
    waveform = vocoder.compute(decoder.excite_at(steps, (used, voiced)), speaker)
    pitch_error = ((height - measured).abs() * sure).sum() / sure.sum().clamp(min=1)
    return waveform.float(), pitch_error


def _new_discriminators(seed: int, channels: int) -> Discriminators:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Discriminators(channels)


def _new_optimizer(module: nn.Module, rate: float) -> torch.optim.Optimizer:
    return eager(torch.optim.AdamW)(module.parameters(), lr=rate, betas=BETAS)


def _descend(optimizer: torch.optim.Optimizer, module: nn.Module, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(module.parameters(), MAX_GRADIENT_NORM)
    optimizer.step()


def _weights(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    weights: list[Tensor] = optimizer.param_groups[0]["params"]
    return weights


def _moments(optimizer: torch.optim.Optimizer) -> list[dict[str, Tensor]]:
    return [dict(optimizer.state[weight]) for weight in _weights(optimizer)]


def _load_moments(optimizer: torch.optim.Optimizer, moments: Sequence[Mapping[str, Tensor]]) -> None:
    for weight, moment in zip(_weights(optimizer), moments, strict=True):
        optimizer.state[weight] = {
            name: tensor.clone()
            if tensor.ndim == 0
            else torch.empty_like(weight).copy_(tensor.reshape(weight.shape))
            for name, tensor in moment.items()
        }
