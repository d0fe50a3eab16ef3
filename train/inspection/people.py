"""Whether the clips of one speaker are of one person, by their speaker embeddings. Pure.

A few clips of somebody else stand out from the centre of the others; many make two groups. Limits
were chosen on flite's slt with kal16 (docs/benchmarks.md, "Suspect clips").
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST_CLIPS = 8
# Fewer are no group: any two clips are nearer to each other than to the rest.
FEWEST_IN_GROUP = 3
# Mean silhouette of two groups: up to 0.57 of 9 to 40 clips of one person, 0.77 and more of two.
LEAST_SEPARATION = 0.6
# Below the usual likeness to the centre, in MADs as standard deviations, and in cosine.
OUTLIER_SIGMAS, OUTLIER_COSINE = 6.0, 0.2
_MAD_TO_SIGMA = 1.4826
_ROUNDS = 20


@dataclass(frozen=True)
class VoiceGroups:
    """likeness: cosine of each clip to the centre of the larger group; others: indices of clips
    that sound like somebody else; separation: 0 one group, 1 two points far apart."""

    likeness: tuple[float, ...]
    others: tuple[int, ...]
    separation: float

    @property
    def two_people(self) -> bool:
        """Whether the others are a group of their own, not single clips."""
        return self.separation >= LEAST_SEPARATION


def group_voices(embeddings: Sequence[np.ndarray]) -> VoiceGroups:
    """Judges the clips of one speaker by embeddings `[width]` of any one model."""
    if len(embeddings) < FEWEST_CLIPS:
        return VoiceGroups((1.0,) * len(embeddings), (), 0.0)
    points = _unit(np.asarray(embeddings, dtype=np.float64))
    near = _two_groups(points)
    if near.sum() < len(near) / 2:
        near = ~near
    separation = _separation(points, near)
    if separation >= LEAST_SEPARATION:
        likeness = points @ _centre(points[near])
        others = np.flatnonzero(~near)
    else:
        likeness = points @ _trimmed_centre(points)
        others = np.flatnonzero(_outliers(likeness))
        separation = 0.0
    return VoiceGroups(tuple(map(float, likeness)), tuple(map(int, others)), float(separation))


def _two_groups(points: np.ndarray) -> np.ndarray:
    """Spherical 2-means `[clips]` bool, begun at the clips that are least alike."""
    first = int(np.argmin(points @ _centre(points)))
    second = int(np.argmin(points @ points[first]))
    centres = points[[first, second]]
    group = np.zeros(len(points), bool)
    for _ in range(_ROUNDS):
        new = points @ centres[1] > points @ centres[0]
        if (new == group).all() or new.all() or not new.any():
            break
        group = new
        centres = np.stack((_centre(points[~group]), _centre(points[group])))
    return group


def _separation(points: np.ndarray, group: np.ndarray) -> float:
    """The mean silhouette of two groups, by cosine distance to their centres; 0 where one has too
    few clips. A clip takes no part in the centre of its own group: of a few it would be a good
    part, and any of them would seem near to it."""
    if min(group.sum(), (~group).sum()) < FEWEST_IN_GROUP:
        return 0.0
    inside, outside = np.empty(len(points)), np.empty(len(points))
    for side in (group, ~group):
        own = points[side]
        without = _unit(own.sum(0) - own)
        inside[side] = 1 - (own * without).sum(1)
        outside[side] = 1 - own @ _centre(points[~side])
    width = (outside - inside) / np.maximum(np.maximum(inside, outside), 1e-9)
    # By group: a few clips of somebody else count as much as the many.
    return float(min(width[group].mean(), width[~group].mean()))


def _outliers(likeness: np.ndarray) -> np.ndarray:
    median = np.median(likeness)
    sigma = max(_MAD_TO_SIGMA * float(np.median(np.abs(likeness - median))), 1e-3)
    below = median - likeness
    return (below > OUTLIER_SIGMAS * sigma) & (below > OUTLIER_COSINE)


def _trimmed_centre(points: np.ndarray) -> np.ndarray:
    """The centre of the half that is nearest to the centre of all."""
    near = np.argsort(-(points @ _centre(points)))[: (len(points) + 1) // 2]
    return _centre(points[near])


def _centre(points: np.ndarray) -> np.ndarray:
    return _unit(points.mean(0))


def _unit(points: np.ndarray) -> np.ndarray:
    found: np.ndarray = points / np.maximum(np.linalg.norm(points, axis=-1, keepdims=True), 1e-9)
    return found
