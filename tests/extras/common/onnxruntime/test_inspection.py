"""A provider is tried in a child process, which may crash or hang."""

import onnxruntime

from extras.common.onnxruntime import inspection
from extras.common.onnxruntime.placement import judge_trial
from extras.common.onnxruntime.providers import CPU, CUDA, ProviderRequest
from tests.extras.common.onnxruntime import onnx_evidence as seen

GPU = seen.GPU_BUILD


def test_what_is_asked_for_is_really_tried_in_a_child():
    trial = inspection.try_provider(CUDA, {"device_id": "0"})
    assert trial.version == onnxruntime.__version__ and trial.active
    assert (trial.known, trial.active) == (False, (CPU,)) or "CUDA" in trial.log or (trial.active[0] == CUDA)


def test_a_trial_that_does_not_come_back_is_told(monkeypatch):
    monkeypatch.setattr(inspection, "_MAX_TRIAL_SECONDS", 0.05)
    trial = inspection.try_provider(CUDA, {})
    assert "no answer" in trial.ending
    assert judge_trial(ProviderRequest("cuda"), GPU, trial)[0] == "hung"
