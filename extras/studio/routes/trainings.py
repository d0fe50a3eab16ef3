"""Routes /v1/trainings: check a dataset; queue, watch and cancel trainings."""

import asyncio

from fastapi import APIRouter, Request

from api.schemas import PROBLEMS
from api.state import Shared
from extras.studio.part import Studio
from extras.studio.training_schemas import (
    CheckRequest,
    CheckResult,
    TrainingList,
    TrainingRequest,
    TrainingRow,
)

router = APIRouter(prefix="/v1/trainings", tags=["trainings"], responses=PROBLEMS)


@router.get("")
def list_trainings(parts: Shared) -> TrainingList:
    """Lists the trainings with their progress, newest first, and whether a trainer works on the
    queue."""
    return parts.part(Studio).trainings.all()


@router.post("", status_code=201)
async def ask_for_training(wanted: TrainingRequest, request: Request, parts: Shared) -> TrainingRow:
    """Adds a training to the queue. Train on a person's voice only with their consent."""
    parts.require_training_allowed()
    parts.check_rate(request)
    row = await asyncio.to_thread(parts.part(Studio).trainings.ask, wanted)
    parts.events.tell("training", {"id": row.id})
    return row


@router.post("/check")
async def check_dataset(wanted: CheckRequest, request: Request, parts: Shared) -> CheckResult:
    """Checks a dataset like `train check --no-likelihood`: which clips training leaves out, and
    which to listen to first. One check at a time; it takes seconds to minutes."""
    parts.require_training_allowed()
    parts.check_rate(request)
    async with parts.part(Studio).trainings.checking:
        return await asyncio.to_thread(parts.part(Studio).trainings.check, wanted)


@router.get("/{training}")
def read_training(training: str, parts: Shared) -> TrainingRow:
    """A training."""
    return parts.part(Studio).trainings.read(training)


@router.delete("/{training}")
async def cancel_training(training: str, parts: Shared) -> TrainingRow:
    """Ends a training, or removes it from the queue. Its checkpoints stay. A training that has
    ended does not change."""
    parts.require_training_allowed()
    row = await asyncio.to_thread(parts.part(Studio).trainings.cancel, training)
    parts.events.tell("training", {"id": row.id})
    return row
