"""The parts outside the GPT that speak: vocoder and speaker encoder.

The vocoder is HiFi-GAN, or `xtts.model.source_filter` in voices of `demo_voice`. HiFi-GAN and the
speaker encoder are Coqui's modules with the sizes in config.json. `HifiDecoder` hard-codes its
speaker encoder, so its two parts are built separately, by their names in a published `model.pth`.
Weight norm is folded into the weights after loading, because it takes time at every call. Exports
copy the base's file and keep its names.

HiFi-GAN computes in channels-last layout, which `nn.Conv1d` does not support (it copies at every
layer in bfloat16), as two-dimensional convolutions of height one. XTTS-v2's vocoder takes, on one
AMX core and per second of audio, 0.46 s as published, 0.37 s in this layout in float32, and 0.09 s
in bfloat16 (docs/develop/log.md).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from machine import extras
from xtts.audio import speaker_mel
from xtts.model.config import ModelConfig
from xtts.model.empty_weights import without_weights
from xtts.model.shapes import AnyVocoderShape, VocoderShape
from xtts.model.source_filter import SOURCE_ROWS, SourceFilter
from xtts.model.streaming_vocoder import MAX_SAMPLES, STEPS_PER_FRAME, WINDOW_SAMPLES, num_first_steps

# The prefix of its tensors in a `model.pth`.
WAVEFORM_DECODER = "hifigan_decoder.waveform_decoder."


class Vocoder(nn.Module):
    """GPT latents to a waveform. Inference uses it through `xtts.model.streaming_vocoder`."""

    arrays = torch
    max_samples = MAX_SAMPLES

    def __init__(self, width: int, speaker_width: int, shape: AnyVocoderShape) -> None:
        super().__init__()
        self.waveform_decoder: nn.Module
        if isinstance(shape, VocoderShape):
            self.waveform_decoder = _hifigan(width, speaker_width, shape)
        else:
            self.waveform_decoder = SourceFilter(width, speaker_width, shape)
        self.shape = shape
        self.width, self.speaker_width = width, speaker_width
        # None in the published layout.
        self.channels_last_type: torch.dtype | None = None
        # Replays the windows that were recorded as CUDA graphs, and returns None for others.
        self.recorded_windows: Any = None

    def forward(self, latents: Tensor, speaker: Tensor) -> Tensor:
        """Latents `[batch, codes, width]`, speaker `[batch, 512, 1]` -> `[batch, samples]`.

        The forward of training and of Coqui, with zeros beyond both ends, which cause clicks.
        """
        return self.sound(self.steps(latents, speaker), speaker)

    def latent_steps(self, latents: Tensor) -> Tensor:
        """Latents `[batch, codes, width]` -> latents at the steps `[batch, width, steps]`.

        Two linear interpolations, as in XTTS-v2's training: from 21.5 Hz to 86.1 Hz, and from there
        to 24,000 / 256 Hz.
        """
        frames = F.interpolate(
            latents.transpose(1, 2), scale_factor=[float(self.shape.steps_per_code)], mode="linear"
        )
        return F.interpolate(frames, scale_factor=[STEPS_PER_FRAME], mode="linear")

    def steps(self, latents: Tensor, speaker: Tensor) -> Tensor:
        """Latents `[batch, codes, width]`, speaker `[batch, 512, 1]` -> the generator's input
        `[batch, rows, steps]`: the latents at the steps, and the source rows of a
        `SourceFilter`."""
        steps = self.latent_steps(latents)
        decoder = self.waveform_decoder
        return decoder.excite(steps, speaker) if isinstance(decoder, SourceFilter) else steps

    @property
    def rows(self) -> int:
        """The rows of the generator's input."""
        has_source = isinstance(self.waveform_decoder, SourceFilter)
        return self.width + (SOURCE_ROWS if has_source else 0)

    def sound(self, steps: Tensor, speaker: Tensor) -> Tensor:
        """Steps `[batch, rows, steps]`, speaker `[batch, 512, 1]` -> `[batch, steps * hop]`."""
        replayed: Tensor | None = self.recorded_windows(steps, speaker) if self.recorded_windows else None
        return self.compute(steps, speaker) if replayed is None else replayed

    def compute(self, steps: Tensor, speaker: Tensor) -> Tensor:
        """As `sound`, without a replay."""
        if self.channels_last_type is None:
            waveform: Tensor = self.waveform_decoder(steps, g=speaker)
            return waveform[:, 0]
        steps, speaker = (to_image(part, self.channels_last_type) for part in (steps, speaker))
        waveform = self.waveform_decoder(steps, g=speaker)
        return waveform[:, 0, 0].float()

    @torch.inference_mode()
    def window(self, latents: Sequence[Tensor], left: int, right: int, speaker: Tensor) -> Tensor:
        """As in `StepVocoder`."""
        # Interpolates all latents again: at most 2,600 steps, which takes a millisecond.
        edge = self.shape.edge_steps
        steps = F.pad(self.steps(torch.stack(list(latents))[None], speaker), (edge, edge), "replicate")
        return steps[:, :, left + edge : right + edge]

    @torch.inference_mode()
    def to_samples(self, steps: Tensor, speaker: Tensor) -> Tensor:
        """As in `StepVocoder`."""
        return self.sound(steps, speaker)[0]

    @property
    def widths(self) -> Sequence[int]:
        """The preferred window widths, which are reused because oneDNN generates code for each
        width, and cuDNN a plan for each of about 55 convolutions. Empty in the published layout on
        a CPU."""
        if self.channels_last_type is None and not plans_each_width(self):
            return ()
        return [samples // self.shape.hop for samples in WINDOW_SAMPLES]

    @torch.inference_mode()
    def warm_up(self, *, records: bool = True) -> None:
        """Prepares the kernels for every width and for a stream's first chunk before the first
        request. records: whether an extra may record windows as CUDA graphs on a GPU; they keep
        their memory."""
        if not self.widths:
            return
        widths, like = (num_first_steps(self.shape), *self.widths), next(self.parameters())
        if records and plans_each_width(self):
            graphs = extras.first("SPEECH_GRAPHS")
            if graphs and graphs.record_windows(self, widths):
                return
        for width in widths:
            speaker = like.new_zeros(1, self.speaker_width, 1)
            self.sound(like.new_zeros(1, self.rows, width), speaker)

    def lay_out(self, dtype: torch.dtype) -> None:
        """Changes HiFi-GAN to the channels-last layout in `dtype`; weight norm must be folded
        before. A `SourceFilter`, which takes a twentieth of XTTS-v2's time, stays as it is."""
        if isinstance(self.waveform_decoder, SourceFilter):
            return
        to_channels_last(self.waveform_decoder)
        self.waveform_decoder.to(dtype)
        self.channels_last_type = dtype


def _hifigan(width: int, speaker_width: int, shape: VocoderShape) -> nn.Module:
    from TTS.vocoder.models.hifigan_generator import HifiganGenerator

    generator: nn.Module = HifiganGenerator(
        width,
        1,
        shape.resblock_type,
        shape.resblock_dilation_sizes,
        shape.resblock_kernel_sizes,
        shape.upsample_kernel_sizes,
        shape.upsample_initial_channel,
        shape.upsample_rates,
        inference_padding=0,
        cond_channels=speaker_width,
        conv_pre_weight_norm=False,
        conv_post_weight_norm=False,
        conv_post_bias=False,
        cond_in_each_up_layer=True,
    )
    return generator


def plans_each_width(vocoder: nn.Module) -> bool:
    """Whether a vocoder is on a GPU, where cuDNN makes a plan for each new shape."""
    return next(vocoder.parameters()).device.type == "cuda"


def load_vocoder(state: Mapping[str, Tensor], config: ModelConfig) -> Vocoder:
    """The vocoder of a `model.pth`'s tensors, ready for inference."""
    speaker_width = config.speaker_encoder.embedding_width
    with torch.random.fork_rng(devices=[]):  # modules draw random weights before these are loaded
        vocoder = Vocoder(config.gpt.width, speaker_width, config.vocoder)
    decoder = vocoder.waveform_decoder
    decoder.load_state_dict(_tensors_under(state, WAVEFORM_DECODER))
    for module in decoder.modules():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")
    return vocoder.eval().requires_grad_(False)


class SpeakerEncoder(nn.Module):
    """Computes a speaker embedding, a unit vector, from a waveform.

    mel_device: computes the mel; the CPU, unless the GPU's FFT passed the probe. It is the only
    CUDA FFT in XTTS's conditioning, and fails in some builds.
    """

    def __init__(self, config: ModelConfig, mel_device: torch.device | str = "cpu") -> None:
        super().__init__()
        self.mel_device = torch.device(mel_device)
        from TTS.encoder.models.resnet import ResNetSpeakerEncoder

        shape = config.speaker_encoder
        self.net: nn.Module = ResNetSpeakerEncoder(
            input_dim=64,
            proj_dim=shape.embedding_width,
            layers=list(shape.layers),
            num_filters=list(shape.num_filters),
            log_input=True,
            use_torch_spec=False,
        )
        if shape.keeps_spectrum:
            self.net.instancenorm = LoudnessNorm()

    def forward(self, waveform: Tensor) -> Tensor:
        """Waveform `[batch, samples]` at 16 kHz -> `[batch, 512, 1]`, unit length."""
        device = next(self.net.parameters()).device
        mel = speaker_mel(waveform.to(self.mel_device)).to(device)
        embedding: Tensor = self.net(mel, l2_norm=True)
        return embedding.unsqueeze(-1)


class LoudnessNorm(nn.Module):
    """Removes the mean level of log mels `[batch, bands, frames]`, and keeps their spectrum."""

    # The standard deviation of speech's log mels is about 4.
    scale = 0.25

    def forward(self, mels: Tensor) -> Tensor:
        """`[batch, bands, frames]` -> the same shape."""
        return self.scale * (mels - mels.mean((1, 2), keepdim=True))


def load_speaker_encoder(
    state: Mapping[str, Tensor], config: ModelConfig, mel_device: torch.device | str = "cpu"
) -> SpeakerEncoder:
    """The speaker encoder of a `model.pth`'s tensors. Our mel filters replace those in the file."""
    encoder = SpeakerEncoder(config, mel_device)
    part = _tensors_under(state, "hifigan_decoder.speaker_encoder.")
    encoder.net.load_state_dict(
        {name: tensor for name, tensor in part.items() if not name.startswith("torch_spec.")}
    )
    return encoder.eval().requires_grad_(False)


def _tensors_under(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor.float() for name, tensor in state.items() if name.startswith(prefix)
    }


def to_channels_last(module: nn.Module) -> None:
    """Replaces every 1-D convolution in `module`, which then takes [batch, channels, 1, time]."""
    for name, child in module.named_children():
        if isinstance(child, nn.Conv1d | nn.ConvTranspose1d):
            setattr(module, name, _as_two_dimensional(child))
        else:
            to_channels_last(child)


def to_image(x: Tensor, dtype: torch.dtype) -> Tensor:
    """[batch, channels, time] -> [batch, channels, 1, time] in channels-last order, in `dtype`."""
    return x[:, :, None].to(dtype, memory_format=torch.channels_last)


def _as_two_dimensional(conv: nn.Conv1d | nn.ConvTranspose1d) -> nn.Module:
    """A two-dimensional copy of one of HiFi-GAN's convolutions."""
    options: dict[str, Any] = {
        "stride": (1, conv.stride[0]),
        "padding": (0, conv.padding[0]),
        "dilation": (1, conv.dilation[0]),
        "bias": conv.bias is not None,
    }
    kind: type[nn.Conv2d | nn.ConvTranspose2d] = nn.Conv2d
    if isinstance(conv, nn.ConvTranspose1d):
        kind, options["output_padding"] = nn.ConvTranspose2d, (0, conv.output_padding[0])
    with without_weights():
        module = kind(conv.in_channels, conv.out_channels, (1, conv.kernel_size[0]), **options)
    weight = conv.weight.detach()[:, :, None].contiguous(memory_format=torch.channels_last)
    module.weight = nn.Parameter(weight, requires_grad=False)
    if conv.bias is not None:
        module.bias = nn.Parameter(conv.bias.detach().clone(), requires_grad=False)
    return module
