"""Routes /v1/trainings: check a dataset; queue, watch and cancel trainings."""

import asyncio

from fastapi import APIRouter, Request

from api.errors import APIError
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
def list_trainings(state: Shared) -> TrainingList:
    """Lists the trainings with their progress, newest first, and whether a trainer works on the
    queue."""
    return state.part(Studio).trainings.all()


@router.post("", status_code=201)
async def ask_for_training(body: TrainingRequest, request: Request, state: Shared) -> TrainingRow:
    """Adds a training to the queue. Train on a person's voice only with their consent."""
    state.require_training_allowed()
    state.check_rate(request)
    row = await asyncio.to_thread(state.part(Studio).trainings.ask, body)
    state.events.tell("training", {"id": row.id})
    return row


@router.post("/check")
async def check_dataset(body: CheckRequest, request: Request, state: Shared) -> CheckResult:
    """Checks a dataset like `train check --no-likelihood`: which clips training leaves out, and
    which to listen to first. One check at a time; it takes seconds to minutes."""
    state.require_training_allowed()
    state.check_rate(request)
    if state.part(Studio).trainings.checking.locked():
        text = "Another dataset is being checked. Try again when that check has ended."
        raise APIError(503, "check_busy", text, retry_after=10)
    async with state.part(Studio).trainings.checking:
        return await asyncio.to_thread(state.part(Studio).trainings.check, body)


@router.get("/{training}")
def read_training(training: str, state: Shared) -> TrainingRow:
    """A training."""
    return state.part(Studio).trainings.read(training)


@router.post("/{training}/start")
async def start_training(training: str, request: Request, state: Shared) -> TrainingRow:
    """Lets the trainer begin a training that was queued before it started. Any other training does
    not change."""
    state.require_training_allowed()
    state.check_rate(request)
    row = await asyncio.to_thread(state.part(Studio).trainings.start, training)
    state.events.tell("training", {"id": row.id})
    return row


@router.delete("/{training}")
async def cancel_training(training: str, state: Shared) -> TrainingRow:
    """Ends a training, or removes it from the queue. Its checkpoints stay. A training that has
    ended does not change."""
    state.require_training_allowed()
    row = await asyncio.to_thread(state.part(Studio).trainings.cancel, training)
    state.events.tell("training", {"id": row.id})
    return row
