"""best_speaker.json: a speaker embedding that was learned for the best weights of a run.

`xtts.workers.speaker_learning` learns it; whoever speaks with those weights takes it in the place
of the one that the speaker encoder hears in the recording. In a bundle it is called speaker.json.

Importing this module imports no torch.
"""

import contextlib
import hashlib
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from machine.storage.atomic import Written, write_json
from machine.storage.checksums import ManifestError, read_manifest
from xtts.voices.run_folder import RunFolder, manifest_beside

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)

# Its name in a bundle.
NAME = "speaker.json"
# 1 went the whole way to what was learned.
SCHEMA = 2


@dataclass(frozen=True)
class LearnedSpeaker:
    """A speaker embedding and the weights that it was learned for.

    Attributes:
        epoch, share, checkpoint_sha256: The weights, as a verdict names them
            (`xtts.voices.evaluation_file.Verdict`).
        speaker_embedding: `[512]`, for the vocoder. Not normalised: no encoder ever said it.
        distance_before, distance_after: Spectral distance of clips that it did not learn from, with
            the recording's own embedding and with this one (`xtts.evaluation.spectral_distance`).
        clips: How many it learned from.
        more_word_errors: Of the evaluation's sentences with it, against the recording's own, as a
            share of the words; None where no recogniser listened.
        harder: Whether those are measurably more.
    """

    epoch: int
    share: float
    checkpoint_sha256: str
    speaker_embedding: list[float]
    distance_before: float
    distance_after: float
    clips: int
    more_word_errors: float | None = None
    harder: bool = False
    schema: int = SCHEMA

    @property
    def weights(self) -> dict[str, object]:
        """As the manifest of a best.pt names what it is a blend of."""
        return {
            "epoch": self.epoch,
            "share": self.share,
            "checkpoint_sha256": self.checkpoint_sha256,
        }

    @property
    def of_base(self) -> bool:
        """Whether the base's own weights were the best, and it was learned for them."""
        return self.share == 0

    @property
    def nearer(self) -> bool:
        """Whether it is nearer to the person."""
        return self.distance_after < self.distance_before

    @property
    def speaks(self) -> bool:
        """Whether it is nearer and understood as well; else it is kept as an answer and speaks
        nowhere."""
        return self.nearer and not self.harder

    @property
    def digest(self) -> str:
        """Tells one embedding from another that was learned for the same weights."""
        return hashlib.sha256(repr(self.speaker_embedding).encode()).hexdigest()

    def tensor(self) -> "Tensor":
        """The embedding `[1, 512, 1]` in float32."""
        import torch

        return torch.tensor(self.speaker_embedding, dtype=torch.float32)[None, :, None]


def write(path: Path, learned: LearnedSpeaker) -> Written:
    """Writes it whole or not at all. Raises DiskFull, WriteError."""
    return write_json(path, asdict(learned))


def read(path: Path) -> LearnedSpeaker | None:
    """What a file says; None, with a line in the log, where it cannot be used: the recording's own
    embedding speaks as well."""
    try:
        found = TypeAdapter(LearnedSpeaker).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        log.warning("%s cannot be read and is left out: %s", path, str(error).splitlines()[0])
        return None
    return found if found.schema == SCHEMA else None


def in_use(path: Path) -> LearnedSpeaker | None:
    """As `read`, where it is to be spoken with."""
    found = read(path)
    return found if found is not None and found.speaks else None


def digest_beside(checkpoint: Path) -> str:
    """Of the embedding that was learned for this very checkpoint; "" without one."""
    path = speaker_beside(checkpoint)
    learned = read(path) if path else None
    return learned.digest if learned else ""


def base_speaker(run: RunFolder) -> Path | None:
    """best_speaker.json, where it was learned for the base that a run was made from; else None."""
    learned = in_use(run.best_speaker)
    return run.best_speaker if learned is not None and learned.of_base else None


def speaker_beside(checkpoint: Path) -> Path | None:
    """best_speaker.json, where it was learned for this very checkpoint; else None."""
    run = RunFolder(checkpoint.parent.parent)
    learned = in_use(run.best_speaker)
    if learned is None:
        return None
    with contextlib.suppress(ManifestError, KeyError):
        manifest = read_manifest(manifest_beside(checkpoint))
        if checkpoint == run.best_blend:
            return run.best_speaker if manifest.blend == learned.weights else None
        same = manifest.files[checkpoint.name].sha256 == learned.checkpoint_sha256
        return run.best_speaker if same and learned.share == 1 else None
    return None
