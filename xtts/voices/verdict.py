"""The verdict on a run: its best weights, as evaluation.json and best.json name them."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

CandidateKind = Literal["base", "epoch", "blend"]
# The ids of the base, and of the base with a decoder trained on the clips.
BASE, BASE_DECODER = "base", "base_decoder"
# The weights of the base, as `Verdict.weights`.
WEIGHTS_OF_BASE = {"epoch": 0, "share": 0.0, "checkpoint_sha256": ""}


@dataclass(frozen=True)
class Verdict:
    """The best candidate and the reason. advice: a recommendation if the base is best, else "".

    indistinguishable_from_base: whether the base is best because nothing was measurably better;
    decoder: as in `xtts.voices.evaluation_file.Candidate`; way: how much of the way from the base's
    `voice` to the person's own recordings, None if it is not nearer or was not compared.
    """

    kind: CandidateKind
    epoch: int
    share: float
    reason: str
    advice: str
    indistinguishable_from_base: bool
    checkpoint_sha256: str
    decoder: str = ""
    way: float | None = None

    @property
    def candidate(self) -> str:
        """The id of the best candidate."""
        return candidate_id(self.kind, self.epoch, self.share, self.decoder)

    @property
    def summary(self) -> str:
        """One line of the reason: which weights are best, and how far of the way to the person."""
        first = self.reason.partition(". ")[0].rstrip(".")
        way = "" if self.way is None else f", {self.way:.0%} of the way to the person"
        return f"{first}{way}."

    @property
    def weights(self) -> dict[str, Any]:
        """The fields that identify the best weights in the manifest of best.pt and in
        best_decoder.json."""
        return {"epoch": self.epoch, "share": self.share, "checkpoint_sha256": self.checkpoint_sha256}


def weights_of_epoch(epoch: int, sha256: str) -> dict[str, Any]:
    """The weights of an epoch, as `Verdict.weights`. sha256: of its checkpoint."""
    return {"epoch": epoch, "share": 1.0, "checkpoint_sha256": sha256}


def candidate_id(kind: CandidateKind, epoch: int, share: float = 1.0, decoder: str = "") -> str:
    """The name of a candidate, in URLs and of the folder with some of its audio. decoder: as in
    `Verdict`; an epoch or a blend is judged with its decoder or without it, the base with both."""
    if kind == "base":
        return BASE_DECODER if decoder else BASE
    return f"epoch_{epoch}" + (f"_share_{share:g}" if kind == "blend" else "")


def verdict_in(content: object) -> Verdict | None:
    """The verdict in the content of a file; None if there is none."""
    try:
        return TypeAdapter(Verdict).validate_python(content)
    except ValidationError:
        return None
