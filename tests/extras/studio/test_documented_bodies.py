"""The bodies of the API's page that the studio answers with."""

import json
import re

from extras.studio.training_schemas import TrainingList, TrainingRow
from tests.installed import ROOT


def test_the_page_of_the_api_shows_the_fields_of_trainings():
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(\{.*?)^```$", page, re.M | re.S)
    bodies = [json.loads(block) for block in blocks if "…" not in block]
    trainings = next(body for body in bodies if "trainings" in body)
    assert set(trainings) == set(TrainingList.model_fields)
    assert [set(row) for row in trainings["trainings"]] == [set(TrainingRow.model_fields)]
