"""The licence of an ONNX voice is checked like that of any other voice."""

import pytest

from extras.onnx import folder as onnx_folder
from extras.onnx.folder import OnnxVoice
from tests.models import tiny_voice
from xtts.model.config import CPML
from xtts.voices.base_models import BundleError
from xtts.voices.voice_files import VoiceSpec, find_voice


def test_what_was_made_from_xtts_v2_asks_for_consent(tmp_path):
    folder = tiny_voice(tmp_path / "voice")
    onnx_folder.write(folder, OnnxVoice({}, ("fp32",), 17, "a" * 64, CPML, ""))
    with pytest.raises(BundleError, match=r"voice is Coqui's XTTS-v2 or was made from it.*AGREED"):
        find_voice(VoiceSpec(str(folder)))
    assert find_voice(VoiceSpec(str(folder), tos_agreed=True)).folder == folder
