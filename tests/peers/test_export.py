"""The export is loaded and spoken by Coqui's own `Xtts`, strictly."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.models import tiny_base, write_vocabulary
from train.checkpointing.checkpoints import Checkpoints
from train.checkpointing.fingerprint import Fingerprint
from train.export import export
from xtts.model.config import ModelConfig
from xtts.model.loading import read_tensors
from xtts.voices import bundle
from xtts.voices.loading import load_voice
from xtts.voices.run_folder import RunFolder
from xtts.voices.voice_files import VoiceFiles, VoiceSpec, find_voice

# XTTS-v2's learning part in small; its vocoder and speaker encoder have no other size at Coqui.
SMALL = {
    "gpt_layers": 2, "gpt_n_model_channels": 64, "gpt_n_heads": 2, "decoder_input_dim": 64,
    "gpt_num_audio_tokens": 66, "gpt_start_audio_token": 64, "gpt_stop_audio_token": 65,
    "gpt_max_audio_tokens": 40,
}  # fmt: skip
FULL = {"gpt_num_audio_tokens": 1026, "gpt_start_audio_token": 1024, "gpt_stop_audio_token": 1025}


def coquis_base(folder: Path, sizes: dict[str, Any]) -> Path:
    """A base that Coqui's own classes wrote: config.json and the state of a fresh `Xtts`."""
    from TTS.tts.configs.xtts_config import XttsConfig
    from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer
    from TTS.tts.models.xtts import Xtts

    folder.mkdir()
    write_vocabulary(folder / "vocab.json")
    config = XttsConfig(languages=["en", "pt"])
    for name, value in {**sizes, "gpt_use_perceiver_resampler": True}.items():
        setattr(config.model_args, name, value)
    torch.manual_seed(0)
    xtts = Xtts(config)
    xtts.tokenizer = VoiceBpeTokenizer(vocab_file=str(folder / "vocab.json"))
    xtts.init_models()
    torch.save({"model": xtts.state_dict()}, folder / "model.pth")
    (folder / "config.json").write_text(config.to_json())
    return folder


def perturbed(base: Path, output_dir: Path, own_text_ids: int) -> Path:
    """A checkpoint of the base's learning part, each value 1 % larger, at our own text ids."""
    config = ModelConfig.read(base)
    assert config.gpt.text_ids == own_text_ids
    fingerprint = Fingerprint.of(base, "d" * 64, config.gpt, output_dir / "cache")
    provenance = {
        "base": {"name": str(base), "sha256": fingerprint.base_sha256},
        "fingerprint": fingerprint.as_dict(),
    }
    tensors = read_tensors(base / "model.pth").items()
    state = {name: tensor * 1.01 for name, tensor in tensors if name.startswith("gpt.")}
    checkpoints = Checkpoints(RunFolder(output_dir), 3, provenance=provenance)
    return checkpoints.save_epoch(1, 1, state, None, {}).path


def loaded_by_coqui(folder: Path) -> Any:
    from TTS.tts.configs.xtts_config import XttsConfig
    from TTS.tts.models.xtts import Xtts

    config = XttsConfig()
    config.load_json(str(folder / "config.json"))
    xtts = Xtts(config)
    xtts.load_checkpoint(config, checkpoint_dir=str(folder), eval=True, strict=True)
    return xtts


def check_spoken(xtts: Any, width: int) -> None:
    torch.manual_seed(0)
    speaker = torch.nn.functional.normalize(torch.randn(1, 512, 1), dim=1)
    spoken = xtts.inference(
        "hello there.", "en", torch.randn(1, 32, width), speaker, repetition_penalty=2.0
    )
    waveform = torch.as_tensor(spoken["wav"])
    assert waveform.numel() > 1_000
    assert bool(torch.isfinite(waveform).all())


def check_weights(xtts: Any, checkpoint: Path, base: Path) -> None:
    """Every tensor in Coqui's model is the checkpoint's or the base's own."""
    found = xtts.state_dict()
    learned = torch.load(checkpoint, weights_only=True)["model"]
    before = read_tensors(base / "model.pth")
    for name, tensor in before.items():
        expected = learned.get(name, tensor)
        rows = (
            len(found[name]) if name.startswith(("gpt.text_embedding", "gpt.text_head")) else None
        )
        assert torch.equal(found[name], expected[:rows] if rows else expected), name
    assert any(name.startswith("hifigan_decoder.speaker_encoder.torch_spec.") for name in before)


def files_of(checkpoint: Path, base: Path) -> VoiceFiles:
    """A checkpoint's, without a recording."""
    spec = VoiceSpec(str(checkpoint), base=str(base))
    return replace(find_voice(spec), reference=None)


def check_export(tmp_path: Path, sizes: dict[str, Any]) -> None:
    base = coquis_base(tmp_path / "base", sizes)
    config = ModelConfig.read(base)
    checkpoint = perturbed(base, tmp_path / "output", config.gpt.text_ids)
    told = export(files_of(checkpoint, base), voice := tmp_path / "voice")
    assert "Coqui's Xtts.load_checkpoint speaks with it" in told
    xtts = loaded_by_coqui(voice)
    check_weights(xtts, checkpoint, base)
    check_spoken(xtts, config.gpt.width)
    assert bundle.read(voice).speaks_in_coqui


def test_a_small_model_speaks_in_coqui(tmp_path):
    check_export(tmp_path, SMALL)


@pytest.mark.slow
def test_the_full_size_speaks_in_coqui(tmp_path):
    check_export(tmp_path, FULL)


def test_padded_text_tables_are_cut_to_the_vocabulary(tmp_path):
    """Coqui counts the vocabulary; a base padded beyond it (an older vocab.json) cannot load."""
    base = tiny_base(tmp_path / "base", coqui_vocoder=True)
    config_json = json.loads((base / "config.json").read_text())
    count = ModelConfig.read(base).gpt.text_ids
    config_json["model_args"]["gpt_number_text_tokens"] = count + 7
    (base / "config.json").write_text(json.dumps(config_json))
    found = torch.load(base / "model.pth", weights_only=True)
    for name in ("gpt.text_embedding.weight", "gpt.text_head.weight", "gpt.text_head.bias"):
        tensor = found["model"][name]
        padding = torch.zeros(7, *tensor.shape[1:])
        found["model"][name] = torch.cat((tensor, padding))
    torch.save(found, base / "model.pth")

    checkpoint = perturbed(base, tmp_path / "output", count + 7)
    export(files_of(checkpoint, base), voice := tmp_path / "voice")
    xtts = loaded_by_coqui(voice)
    assert xtts.gpt.text_embedding.weight.shape == (count, 64)
    check_weights(xtts, checkpoint, base)
    assert ModelConfig.read(voice).gpt.text_ids == count
    load_voice(VoiceSpec(str(voice)))
