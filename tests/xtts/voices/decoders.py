"""Decoders that look as if they had been learned."""

from pathlib import Path

from machine.storage.checksums import sha256_of
from xtts.model.loading import read_tensors
from xtts.model.vocoder import WAVEFORM_DECODER
from xtts.voices import learned_decoder
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.voices.run_folder import epoch_of


def shifted_decoder(tensors: Path, base: Path, checkpoint: Path, factor: float, *, sha256: str = "") -> None:
    """Writes the base's decoder with its biases times `factor`, with a record that it was learned
    for the checkpoint of an epoch, or for one with this SHA-256."""
    shifted = {
        name: tensor.float() + (factor - 1) * 0.1 if name.endswith(".bias") else tensor.float()
        for name, tensor in read_tensors(base / "model.pth").items()
        if name.startswith(WAVEFORM_DECODER)
    }
    written = learned_decoder.write_tensors(tensors, shifted)
    learned_decoder.write(
        tensors,
        LearnedDecoder(
            epoch_of(checkpoint) or 0, 1.0, sha256 or sha256_of(checkpoint), 2.0, 1.5, 40, 250, file=written
        ),
    )
