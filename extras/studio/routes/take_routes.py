"""Routes /v1/datasets/{dataset}/prompts: sentences to read aloud, and their takes."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from api.errors import APIError
from api.gate import takes_upload
from api.schemas import PROBLEMS
from api.state import AppState, Shared
from extras.studio import take_schemas as schemas
from extras.studio.datasets import prompts, recorded_takes
from extras.studio.datasets.dataset_store import UploadedDataset
from extras.studio.part import Studio
from xtts.evaluation.recogniser import can_hear_english

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], responses=PROBLEMS)
_AUDIO = ("audio/wav", "audio/webm", "audio/ogg", "audio/mp4", "audio/flac", "audio/mpeg")
_RECORDING_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in (*_AUDIO, "application/octet-stream")
        },
    }
}
_RECOGNISED_LANGUAGE = "en"
# A few minutes audibly change the voice; half an hour is good: docs/your-voice.md.
_FEW_MINUTES, _GOOD_MINUTES = 3, 30
Number = Annotated[int, Path(ge=1, le=prompts.MAX_PROMPTS, description="The number of the sentence, from 1.")]


@router.get("/{dataset}/prompts")
def list_prompts(dataset: str, state: Shared) -> schemas.PromptSheet:
    """Lists the sentences to read aloud with the state of each, and the recorded minutes."""
    return _prompt_sheet(state.part(Studio).datasets.find(dataset))


@router.put("/{dataset}/prompts")
async def put_prompts(dataset: str, body: schemas.PromptsRequest, state: Shared) -> schemas.PromptSheet:
    """Gives an empty dataset sentences to read aloud: the built-in ones of its language, or those
    of your text."""
    uploaded = state.part(Studio).datasets.find(dataset)
    if body.text is None:
        texts = prompts.built_in_sentences(uploaded.language)
        if not texts:
            text = (
                f"There are no built-in sentences for the language {uploaded.language}. "
                "Send a text of your own."
            )
            raise APIError(422, "no_built_in_sentences", text, param="text")
        await asyncio.to_thread(recorded_takes.make_prompts, uploaded, "built_in", texts)
    else:
        texts = await asyncio.to_thread(prompts.prompts_from, body.text, uploaded.language)
        await asyncio.to_thread(recorded_takes.make_prompts, uploaded, "own", texts)
    state.events.tell("dataset", {"id": uploaded.id})
    return await asyncio.to_thread(_prompt_sheet, uploaded)


@router.put("/{dataset}/prompts/{number}/take", openapi_extra=_RECORDING_BODY)
@takes_upload(20 << 20)
async def check_take(
    dataset: str,
    number: Number,
    request: Request,
    state: Shared,
    keep: Annotated[
        bool, Query(description="Whether it becomes the clip of its sentence despite findings.")
    ] = False,
) -> schemas.TakeRow:
    """Checks a recording of a sentence: silence, level, noise, clipping, cut-off speech and, in
    English, the words. With `keep` it becomes a clip of the dataset and replaces the previous one;
    training cannot use a take that is silent, too short or too long (422)."""
    state.check_rate(request)
    uploaded = state.part(Studio).datasets.find(dataset)
    sheet = await asyncio.to_thread(prompts.read_prompts, uploaded)
    text = sheet.text(number)
    wav, checked = await state.part(Studio).takes.check(await request.body(), text, uploaded.language)
    if keep and not checked.usable:
        raise APIError(422, "unusable_take", checked.findings[0].sentence)
    if keep:
        await asyncio.to_thread(_keep_take, state, uploaded, number, wav, checked)
    return schemas.TakeRow(number=number, kept=keep, **checked.model_dump())


@router.delete("/{dataset}/prompts/{number}/take", status_code=204, response_class=Response)
def delete_take(dataset: str, number: Number, state: Shared) -> Response:
    """Deletes the take of a sentence, or its mark as skipped, so the sentence is open again."""
    uploaded = state.part(Studio).datasets.find(dataset)
    recorded_takes.forget(uploaded, number)
    state.events.tell("dataset", {"id": uploaded.id})
    return Response(status_code=204)


@router.post("/{dataset}/prompts/{number}/skip")
def skip_prompt(dataset: str, number: Number, state: Shared) -> schemas.PromptRow:
    """Skips a sentence."""
    uploaded = state.part(Studio).datasets.find(dataset)
    take = recorded_takes.skip(uploaded, number)
    state.events.tell("dataset", {"id": uploaded.id})
    return _prompt_row(uploaded, number, prompts.read_prompts(uploaded).text(number), take)


def _keep_take(
    state: AppState, dataset: UploadedDataset, number: int, wav: bytes, checked: schemas.CheckedTake
) -> None:
    recorded_takes.keep(state.part(Studio).datasets, dataset, number, wav, checked)
    state.events.tell("dataset", {"id": dataset.id})


def _prompt_sheet(dataset: UploadedDataset) -> schemas.PromptSheet:
    sheet, takes = prompts.read_prompts(dataset), recorded_takes.read_takes(dataset)
    rows = [
        _prompt_row(dataset, number, text, takes.get(number))
        for number, text in enumerate(sheet.texts, start=1)
    ]
    recorded = [row for row in rows if row.state == "kept"]
    seconds = sum(row.seconds for row in recorded)
    return schemas.PromptSheet(
        source=sheet.source,
        language=dataset.language,
        prompts=rows,
        kept=len(recorded),
        skipped=sum(row.state == "skipped" for row in rows),
        kept_seconds=round(seconds, 3),
        next=next((row.number for row in rows if row.state == "open"), None),
        recogniser=dataset.language.partition("-")[0] == _RECOGNISED_LANGUAGE and can_hear_english(),
        more=advise_on_length(len(recorded), seconds, sum(row.state == "open" for row in rows)),
    )


def _prompt_row(
    dataset: UploadedDataset, number: int, text: str, take: recorded_takes.Take | None
) -> schemas.PromptRow:
    name = take.name if take else ""
    return schemas.PromptRow(
        number=number,
        text=text,
        state=take.state if take else "open",
        seconds=take.seconds if take else 0.0,
        findings=[
            schemas.TakeFinding.model_validate({"kind": kind, "sentence": sentence})
            for kind, sentence in (take.findings if take else ())
        ],
        sound=f"/v1/datasets/{dataset.id}/clips/{name}.wav" if name else None,
    )


def advise_on_length(count: int, seconds: float, num_open: int) -> str:
    """The recorded length, and how many more sentences of average length would help.

    Args:
        count, seconds: The number and the length of the kept takes.
        num_open: The number of sentences to read.
    """
    minutes = seconds / 60
    average_seconds = seconds / count if count else 4.0
    length = f"{minutes:.1f} minutes" if minutes >= 1 else f"{seconds:.1f} s"
    recorded = f"{length} of clips."
    to_few, to_good = (
        round((goal * 60 - seconds) / average_seconds) for goal in (_FEW_MINUTES, _GOOD_MINUTES)
    )
    hint = ""
    if num_open < (to_few if minutes < _FEW_MINUTES else to_good):
        hint = f" {num_open} are left here: read a text of your own for more."
    if minutes < _FEW_MINUTES:
        return (
            f"{recorded} About {max(1, to_few)} more sentences make {_FEW_MINUTES} minutes: enough to "
            f"hear the voice change. {_GOOD_MINUTES} minutes are good.{hint}"
        )
    if minutes < _GOOD_MINUTES:
        return (
            f"{recorded} That is enough to train and to hear the voice change; about {max(1, to_good)} "
            f"more sentences make {_GOOD_MINUTES} minutes, which are good.{hint}"
        )
    return f"{recorded} That is enough for a good voice."
