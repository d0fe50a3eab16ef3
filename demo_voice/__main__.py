"""`make demo-voice`: runs every stage of training the embedded voice, from sentences to files.

A stage learns for its share of `--minutes` and resumes from its snapshot.
"""

import argparse
import hashlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile
import torch

from demo_voice import carrying, codec, listener, packaging, pretraining, speaking, vocoder
from demo_voice.base import Base
from demo_voice.recipe import FULL, SHORT, BaseRecipe
from demo_voice.speech import Speech
from demo_voice.stages import StageContext
from demo_voice.teachers import hibari
from machine.errors import SotaqueError
from xtts.model import discriminators

FILES = (
    "model.pth",
    "dvae.pth",
    "mel_stats.pth",
    "vocab.json",
    "config.json",
    "reference.wav",
    discriminators.FILE,
)
STAGES = ("texts", "speech", "listener", "codec", "pretraining", "vocoder", "package", "clips")
LEARNING_STAGES = STAGES[2:6]


@dataclass(frozen=True)
class Making:
    """A training of the voice.

    Attributes:
        work: The folder of the stages' files.
        to: The folder of the finished voice.
        minutes: Of learning, in all stages together.
        speakers: The number of processes that speak.
        base: The voice to continue from.
        styles: The folder of Kokoro's styles.
        recordings: The folder of recordings of real people.
    """

    recipe: BaseRecipe
    work: Path
    to: Path
    device: torch.device
    minutes: float
    speakers: int
    base: Base | None = None
    styles: Path | None = None
    recordings: Path | None = None

    def run(self, stages: Sequence[str]) -> None:
        """Runs the stages in their order."""
        for stage in STAGES:
            if stage in stages:
                started = time.monotonic()
                getattr(self, stage)()
                minutes = (time.monotonic() - started) / 60
                print(f"{stage}: done after {minutes:.1f} minutes", flush=True)

    def texts(self) -> None:
        """Writes the sentences and their phones."""
        speaking.write_texts(self.recipe, self.work)

    def speech(self) -> None:
        """Speaks the sentences."""
        speaking.speak_all(self.recipe, self.work, self.speakers, self.styles, self.recordings)

    def listener(self) -> None:
        """Trains the speaker encoder."""
        listener.learn(self._context("listener"), self._speech())

    def codec(self) -> None:
        """Trains the DVAE, and measures the scales of the mels."""
        codec.learn(self._context("codec"), self._speech())

    def pretraining(self) -> None:
        """Trains the GPT."""
        pretraining.learn(self._context("pretraining"), self._speech())

    def vocoder(self) -> None:
        """Trains the vocoder for the GPT's latents."""
        context, speech = self._context("vocoder"), self._speech()
        vocoder.learn(context, speech, pretraining.new_lessons(context, speech))

    def package(self) -> None:
        """Writes the files of the voice, its reference recording, and their hashes."""
        context = self._context("package")
        dvae, mel_stats = codec.load(context)
        packaging.write(
            self.to,
            self.recipe,
            gpt=pretraining.load(context).gpt,
            vocoder=vocoder.load(context).waveform_decoder,
            speaker_encoder=listener.load(context).net,
            dvae=dvae,
            mel_stats=mel_stats,
            weights="trained",
            continued=self.base is not None,
            discriminators=vocoder.load_discriminators(context),
        )
        wave = speaking.speak_reference()
        soundfile.write(self.to / "reference.wav", wave, hibari.RATE, subtype="PCM_16")
        packaging.write_alignment_heads(self.to)
        for name in FILES:
            digest = hashlib.sha256((self.to / name).read_bytes()).hexdigest()
            print(f"{digest}  {name}")

    def clips(self) -> None:
        """Writes the recordings of the demo dataset into the work folder. Raises SotaqueError
        without --styles."""
        if self.styles is None:
            raise SotaqueError(
                "The demo's person is a style of Kokoro. Give the folder voices of the npm package "
                "kokoro-js with --styles."
            )
        speaking.write_demo_clips(self.work / "clips", self.styles)

    def _speech(self) -> Speech:
        max_codes = self.recipe.gpt.max_audio_tokens - 5
        return Speech(self.work / "speech", self.device, max_codes)

    def _context(self, stage: str) -> StageContext:
        share = getattr(getattr(self.recipe, stage, None), "share", 0.0)
        seconds = 60 * self.minutes * share
        return StageContext(self.recipe, self.work, self.device, seconds, self.base)


def main(argv: Sequence[str] | None = None) -> int:
    """Trains the voice; prints an error's message and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo_voice", description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("train/output/base"))
    parser.add_argument("--to", type=Path, default=Path("train/output/demo"))
    parser.add_argument("--base", type=Path, help="continues from this voice's folder")
    parser.add_argument("--styles", type=Path, help="the folder voices of kokoro-js")
    parser.add_argument("--recordings", type=Path, help="real people: clips and metadata.csv")
    parser.add_argument("--only", choices=STAGES, action="append", help="may be given again")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float, default=600.0, help="of learning, all stages")
    parser.add_argument("--resume", action="store_true", help="reads what --carry wrote")
    parser.add_argument("--carry", type=Path, help="writes the weights here, in small files")
    parser.add_argument("--speakers", type=int, default=2, help="processes that speak")
    parser.add_argument("--threads", type=int, help="fewer than cores where others work too")
    parser.add_argument("--short", action="store_true", help="tiny sizes: does every stage run?")
    arguments = parser.parse_args(argv)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.set_float32_matmul_precision("high")
    device = torch.device(arguments.device)
    arguments.work.mkdir(parents=True, exist_ok=True)
    recipe = SHORT if arguments.short else FULL
    try:
        making = Making(
            recipe,
            arguments.work,
            arguments.to,
            device,
            arguments.minutes,
            arguments.speakers,
            Base(arguments.base, recipe) if arguments.base else None,
            arguments.styles,
            arguments.recordings,
        )
        if arguments.resume:
            carrying.unpack(arguments.work)
        making.run(arguments.only or STAGES[:-1])
        if arguments.carry:
            carrying.pack(arguments.work, arguments.carry)
    except SotaqueError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
