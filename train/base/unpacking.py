"""Goes on from a packed voice: its codec, speaker encoder and GPT as the stages' snapshots, so that
a better vocoder, or a GPT that has heard more, needs not the hours that those took.

The DVAE's decoder and the mel head are not packed. Nothing reads the first again; the second is
found anew by least squares. Called by `train.base.__main__` for `--from`.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from train.base import listener, pace
from train.base.lessons import Lessons
from train.base.pretraining import Pupil, optimizers
from train.base.recipe import BaseRecipe
from xtts.gpt import from_coqui, new_gpt
from xtts.vocoder import new_dvae

# What is packed and stays as it is.
STAGES = ("codec", "listener")
# Steps of the pretraining's schedule that the packed GPT counts as having done: the last third,
# where the rate falls and voices come in other timbres, is gone through again.
DONE_SHARE = 0.68
BATCHES = 40
_ENCODER = "hifigan_decoder.speaker_encoder."


def frozen(voice: Path, recipe: BaseRecipe, folder: Path) -> None:
    """Writes `codec.pt`, `mel_stats.pt` and `listener.pt` where they are missing."""
    if not (folder / "codec.pt").is_file():
        dvae = new_dvae(recipe.dvae)
        dvae.load_state_dict(_single(_read(voice / "dvae.pth")), strict=False)
        torch.save(_read(voice / "mel_stats.pth"), folder / "mel_stats.pt")
        pace.save(folder / "codec.pt", {"dvae": dvae}, recipe.codec.steps)
    if not (folder / "listener.pt").is_file():
        encoder = listener.new(recipe)
        state = _packed(voice)
        encoder.net.load_state_dict(
            {
                name.removeprefix(_ENCODER): tensor
                for name, tensor in state.items()
                if name.startswith(_ENCODER)
            }
        )
        pace.save(folder / "listener.pt", {"encoder": encoder}, recipe.listener.steps)


def gpt(voice: Path, recipe: BaseRecipe, lessons: Lessons, folder: Path) -> None:
    """Writes `pretraining.pt` where it is missing, at `DONE_SHARE` of its schedule."""
    path = folder / "pretraining.pt"
    if path.is_file():
        return
    pupil = Pupil(new_gpt(recipe.gpt, recipe.seed))
    pupil.gpt.load_state_dict(from_coqui(_packed(voice)))
    _read_mels(pupil.eval(), lessons, recipe)
    step = int(DONE_SHARE * recipe.pretraining.steps)
    fresh = optimizers(pupil, recipe.pretraining.learning_rate)
    pace.save(path, {"pupil": pupil, **fresh}, step)


@torch.no_grad()
def _read_mels(pupil: Pupil, lessons: Lessons, recipe: BaseRecipe) -> None:
    """The mel head that reads the mels of some batches best, in squares."""
    products, wanted = [], []
    size = recipe.pretraining.batch
    for number in range(min(BATCHES, max(1, len(lessons.heard) // size))):
        clips = lessons.heard[number * size : (number + 1) * size]
        lesson = lessons.batch(clips, f"unpacking/{number}")
        with pace.low_precision(torch.device("cpu")):
            latents = pupil.latent_pairs(pupil.hidden(lesson), lesson)
        products.append(latents.float())
        wanted.append(lesson.mels)
    read = torch.cat(products)
    one = read.new_ones(len(read), 1)
    found = torch.linalg.lstsq(torch.cat((read, one), dim=1), torch.cat(wanted)).solution
    pupil.mel_head.weight.copy_(found[:-1].T)
    pupil.mel_head.bias.copy_(found[-1])


def _packed(voice: Path) -> dict[str, Tensor]:
    return _single(_read(voice / "model.pth")["model"])


def _read(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)


def _single(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: tensor.float() if tensor.is_floating_point() else tensor
        for name, tensor in state.items()
    }
