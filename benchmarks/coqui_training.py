"""Coqui's own training as its recipe assembles it: `GPTTrainer`, its dataset, its AdamW.

Two things differ from the recipe. Recordings are read with soundfile, because `torchaudio.load`
needs FFmpeg here (soundfile is the faster of the two). Batches hold the clips that are asked for,
because Coqui's dataset draws with replacement.
"""

from collections.abc import Sequence
from pathlib import Path

import soundfile
import torch
from torch import Tensor

from xtts.model.config import ModelConfig


class CoquiTrainingRecipe:
    """One `GPTTrainer` with its optimizer. samples: the rows of the transcript."""

    def __init__(self, base: Path, data: Path, learning_rate: float) -> None:
        from TTS.tts.layers.xtts.trainer import dataset
        from TTS.tts.layers.xtts.trainer.gpt_trainer import GPTArgs, GPTTrainer, GPTTrainerConfig

        shape = ModelConfig.read(base).gpt
        arguments = GPTArgs(
            tokenizer_file=str(base / "vocab.json"),
            mel_norm_file=str(base / "mel_stats.pth"),
            dvae_checkpoint=str(base / "dvae.pth"),
            xtts_checkpoint=str(base / "model.pth"),
            gpt_layers=shape.layers,
            gpt_n_model_channels=shape.width,
            gpt_n_heads=shape.heads,
            gpt_max_audio_tokens=shape.max_audio_tokens,
            gpt_num_audio_tokens=shape.audio_ids,
            gpt_start_audio_token=shape.audio_start,
            gpt_stop_audio_token=shape.audio_stop,
            gpt_max_text_tokens=shape.max_text_tokens,
            gpt_number_text_tokens=shape.text_ids,
            gpt_start_text_token=shape.text_start,
            gpt_stop_text_token=shape.text_stop,
            decoder_input_dim=shape.width,
            gpt_use_masking_gt_prompt_approach=True,
            gpt_use_perceiver_resampler=True,
        )
        config = GPTTrainerConfig(
            model_args=arguments,
            optimizer="AdamW",
            optimizer_wd_only_on_weights=True,
            optimizer_params={"betas": [0.9, 0.96], "eps": 1e-8, "weight_decay": 1e-2},
            lr=learning_rate,
        )
        dataset.load_audio = read
        self.model = GPTTrainer(config)
        self.model.eval()
        self.model.xtts.gpt.train()
        self.optimizer = self.model.get_optimizer()
        self.samples = samples(data)
        self.audio_seconds = sum(soundfile.info(sample["audio_file"]).duration for sample in self.samples)
        self.dataset = dataset.XTTSDataset(
            config, list(self.samples), self.model.xtts.tokenizer, config.audio.sample_rate
        )

    def load(self, clips: Sequence[int]) -> dict[str, object]:
        """The batch that Coqui's dataset and collate function make of these clips."""
        items = []
        for clip in clips:
            names = ("text", "filenames", "wav", "conditioning", "cond_lens", "cond_idxs")
            item = dict(zip(names, self.dataset.load_item(self.samples[clip]), strict=True))
            item["text_lengths"] = torch.tensor(len(item["text"]))
            item["wav_lengths"] = torch.tensor(item["wav"].shape[-1])
            item["conditioning"] = item["conditioning"].unsqueeze(1)
            item["cond_lens"] = torch.tensor([item["cond_lens"]])
            item["cond_idxs"] = torch.tensor(item["cond_idxs"])
            items.append(item)
        batch: dict[str, object] = self.dataset.collate_fn(items)
        return batch

    def features(self, batch: dict[str, object]) -> dict[str, object]:
        """Features from Coqui's two mel front-ends and its DVAE, as at every step."""
        features: dict[str, object] = self.model.format_batch_on_device(batch)
        return features

    def step(self, batch: dict[str, object]) -> float:
        """Takes a step (forward, backward, AdamW); returns the audio loss."""
        _, losses = self.model.train_step(batch, None)
        losses["loss"].backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(losses["loss_mel_ce"].detach())


def read(path: str, rate: int) -> Tensor:
    """[1, samples], in place of Coqui's `load_audio`."""
    samples_, clip_rate = soundfile.read(path, dtype="float32", always_2d=True)
    if clip_rate != rate:
        raise ValueError(f"{path} has {clip_rate} Hz; the benchmark's clips have {rate}.")
    return torch.from_numpy(samples_.T.copy()).mean(0, keepdim=True).clip_(-1, 1)


def samples(data: Path) -> list[dict[str, str]]:
    """The rows of an LJSpeech-like transcript in Coqui's form."""
    lines = (data / "metadata.csv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("|") for line in lines)
    return [
        {"audio_file": str(data / "wavs" / f"{name}.wav"), "text": text, "language": "en"}
        for name, text in rows
    ]
