"""Continues from a packaged voice: turns its files back into training stages.

A part that learned too little can continue without repeating the hours before it. The DVAE's
decoder and the mel head are not packaged: the decoder is trained again before the rest of the codec
continues, and the mel head is fitted by least squares.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from demo_voice import codec, speaker_encoder, stages
from demo_voice import vocoder as vocoders
from demo_voice.gpt.batches import Lessons
from demo_voice.gpt.passages import alone
from demo_voice.gpt.pretraining import Pupil, optimizers
from demo_voice.packaging import SPEAKER_ENCODER, VOCODER
from demo_voice.recipe import BaseRecipe
from xtts.model.gpt import from_coqui, new_gpt
from xtts.model.vocoder import new_dvae

# Stages that are skipped: the vocoder continues in its tuning.
DONE = ("vocoder",)
BATCHES = 40


def write(voice: Path, recipe: BaseRecipe, folder: Path) -> None:
    """Writes `codec.pt`, `mel_stats.pt`, `listener.pt` and `tuning.pt` if they are missing.

    The voice must have the recipe's sizes.
    """
    if not (folder / "codec.pt").is_file():
        dvae = new_dvae(recipe.dvae)
        dvae.load_state_dict(_single(_read(voice / "dvae.pth")), strict=False)
        torch.save(_read(voice / "mel_stats.pth"), folder / "mel_stats.pt")
        codec.keep_codebook(dvae.codebook)
        reader = codec.PhoneReader(dvae.codebook.dim)
        mover = codec.new_optimizer(dvae, recipe.codec, reader)
        parts = {"dvae": dvae, "reader": reader, "optimizer": mover}
        stages.save(folder / "codec.pt", parts, 0)
    state = _packed(voice)
    if not (folder / "listener.pt").is_file():
        encoder = speaker_encoder.new(recipe)
        encoder.net.load_state_dict(_under(SPEAKER_ENCODER, state))
        speakers, optimizer = speaker_encoder.company(encoder, recipe)
        parts = {"encoder": encoder, "speakers": speakers, "optimizer": optimizer}
        stages.save(folder / "listener.pt", parts, 0)
    if not (folder / "tuning.pt").is_file():
        vocoder = vocoders.new(recipe)
        vocoder.waveform_decoder.load_state_dict(_under(VOCODER, state))
        optimizer = vocoders.optimizer(vocoder, recipe.tuning)
        stages.save(folder / "tuning.pt", {"net": vocoder, "optimizer": optimizer}, 0)


def write_gpt(voice: Path, recipe: BaseRecipe, lessons: Lessons, folder: Path) -> None:
    """Writes `pretraining.pt` if it is missing."""
    path = folder / "pretraining.pt"
    if path.is_file():
        return
    pupil = Pupil(new_gpt(recipe.gpt, recipe.seed))
    state = from_coqui(_packed(voice))
    pupil.gpt.load_state_dict({**pupil.gpt.state_dict(), **state})
    _read_mels(pupil.eval(), lessons, recipe)
    fresh = optimizers(pupil, recipe.pretraining.learning_rate)
    stages.save(path, {"pupil": pupil, **fresh}, 0)


@torch.no_grad()
def _read_mels(pupil: Pupil, lessons: Lessons, recipe: BaseRecipe) -> None:
    """Fits the mel head to the mels of some batches by least squares."""
    products, wanted = [], []
    size = recipe.pretraining.batch
    for number in range(min(BATCHES, max(1, len(lessons.heard) // size))):
        clips = lessons.heard[number * size : (number + 1) * size]
        lesson = lessons.batch(alone(clips), f"unpacking/{number}")
        with stages.low_precision(torch.device("cpu")):
            latents = pupil.latent_pairs(pupil.hidden(lesson), lesson)
        products.append(latents.float())
        wanted.append(lesson.mels)
    read = torch.cat(products)
    one = read.new_ones(len(read), 1)
    solution = torch.linalg.lstsq(torch.cat((read, one), dim=1), torch.cat(wanted)).solution
    pupil.mel_head.weight.copy_(solution[:-1].T)
    pupil.mel_head.bias.copy_(solution[-1])


def _under(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): part for name, part in state.items() if name.startswith(prefix)
    }


def _packed(voice: Path) -> dict[str, Tensor]:
    return _single(_read(voice / "model.pth")["model"])


def _read(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)


def _single(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: tensor.float() if tensor.is_floating_point() else tensor
        for name, tensor in state.items()
    }
