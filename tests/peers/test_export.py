"""Coqui's own `Xtts` loads the export strictly and speaks with it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch

from tests.models import tiny_base, write_vocabulary
from train.checkpointing.checkpoints import Checkpoints
from train.checkpointing.fingerprint import Fingerprint
from train.export import export
from xtts.inference.compute_config import ComputeConfig
from xtts.model.config import ModelConfig
from xtts.model.loading import read_tensors
from xtts.model.vocoder import WAVEFORM_DECODER, load_vocoder
from xtts.voices import bundle, learned_decoder
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.voices.loading import load_voice
from xtts.voices.run_folder import RunFolder
from xtts.voices.voice_files import VoiceFiles, VoiceSpec, find_voice
from xtts.workers.decoder_learning import to_published

# A small XTTS-v2 learning part; Coqui's vocoder and speaker encoder have only one size.
SMALL = {
    "gpt_layers": 2,
    "gpt_n_model_channels": 64,
    "gpt_n_heads": 2,
    "decoder_input_dim": 64,
    "gpt_num_audio_tokens": 66,
    "gpt_start_audio_token": 64,
    "gpt_stop_audio_token": 65,
    "gpt_max_audio_tokens": 40,
}
FULL = {"gpt_num_audio_tokens": 1026, "gpt_start_audio_token": 1024, "gpt_stop_audio_token": 1025}


def coquis_base(folder: Path, sizes: dict[str, Any]) -> Path:
    """A base written by Coqui's own classes: config.json and the state of a fresh `Xtts`."""
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
    """A checkpoint of the base's learning part, each value 1 % larger, with our text ids."""
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
    return checkpoints.save_epoch(1, 1, state, None, {}).checkpoint


def loaded_by_coqui(folder: Path) -> Any:
    from TTS.tts.configs.xtts_config import XttsConfig
    from TTS.tts.models.xtts import Xtts

    config = XttsConfig()
    config.load_json(str(folder / "config.json"))
    xtts = Xtts(config)
    xtts.load_checkpoint(config, checkpoint_dir=str(folder), eval=True, strict=True)
    return xtts


def check_spoken(xtts: Any, width: int, text: str = "hello there.", language: str = "en") -> None:
    torch.manual_seed(0)
    speaker = torch.nn.functional.normalize(torch.randn(1, 512, 1), dim=1)
    spoken = xtts.inference(text, language, torch.randn(1, 32, width), speaker, repetition_penalty=2.0)
    waveform = torch.as_tensor(spoken["wav"])
    assert waveform.numel() > 1_000
    assert bool(torch.isfinite(waveform).all())


def check_weights(
    xtts: Any, checkpoint: Path, base: Path, decoder: Mapping[str, torch.Tensor] = MappingProxyType({})
) -> None:
    """Every tensor in Coqui's model is the checkpoint's, the learned decoder's or the base's."""
    found = xtts.state_dict()
    learned = {**torch.load(checkpoint, weights_only=True)["model"], **decoder}
    before = read_tensors(base / "model.pth")
    for name, tensor in before.items():
        expected = learned.get(name, tensor)
        rows = len(found[name]) if name.startswith(("gpt.text_embedding", "gpt.text_head")) else None
        assert torch.equal(found[name], expected[:rows] if rows else expected), name
    assert any(name.startswith("hifigan_decoder.speaker_encoder.torch_spec.") for name in before)


def learned_decoder_of(checkpoint: Path, base: Path) -> dict[str, torch.Tensor]:
    """A decoder learned by the run for its epoch: the base's with slightly changed values, as the
    learner writes them, with weight norm's lengths and directions."""
    run, published = RunFolder(checkpoint.parent.parent), read_tensors(base / "model.pth")
    vocoder = load_vocoder(published, ModelConfig.read(base))
    vocoder.lay_out(torch.float32)
    with torch.no_grad():
        for weight in vocoder.parameters():
            weight.mul_(1.1)
    tensors = to_published(vocoder, published)
    assert tensors.keys() == {name for name in published if name.startswith(WAVEFORM_DECODER)}
    file = learned_decoder.write_tensors(run.decoder_path(1), tensors)
    sha256 = run.verified(1).sha256
    record = LearnedDecoder(1, 1.0, sha256, 2.0, 1.9, 8, 24, file=file)
    learned_decoder.write(run.decoder_path(1), record)
    return tensors


@torch.no_grad()
def check_decoder(xtts: Any, base: Path, voice: Path) -> None:
    """Coqui's vocoder and ours make the same sound from the same latents."""
    exact = ComputeConfig(precision="fp32")
    model = load_voice(VoiceSpec(str(voice), tos_agreed=True), exact).model
    width, vocoder = model.config.gpt.width, model.vocoder
    draw = torch.Generator().manual_seed(0)
    latents = torch.randn(1, 20, width, generator=draw)
    speaker = torch.nn.functional.normalize(torch.randn(1, 512, 1, generator=draw), dim=1)
    theirs = xtts.hifigan_decoder(latents, g=speaker).squeeze()
    ours = vocoder(latents, speaker).squeeze()
    of_base = load_voice(VoiceSpec(str(base), tos_agreed=True), exact).model.vocoder
    loudest = float(theirs.abs().max())  # random weights: far below 1
    assert (ours - theirs).abs().max() < 1e-4 * loudest
    assert (ours - of_base(latents, speaker).squeeze()).abs().max() > 0.1 * loudest


def files_of(checkpoint: Path, base: Path) -> VoiceFiles:
    """The files of a checkpoint, without a recording."""
    # They have XTTS-v2's shape and no licence file, so its licence must be accepted.
    spec = VoiceSpec(str(checkpoint), base=str(base), tos_agreed=True)
    return replace(find_voice(spec), reference=None)


def check_export(tmp_path: Path, sizes: dict[str, Any]) -> None:
    base = coquis_base(tmp_path / "base", sizes)
    config = ModelConfig.read(base)
    checkpoint = perturbed(base, tmp_path / "output", config.gpt.text_ids)
    decoder = learned_decoder_of(checkpoint, base)
    told = export(files_of(checkpoint, base), voice := tmp_path / "voice")
    assert "Coqui's Xtts.load_checkpoint speaks with it" in told
    xtts = loaded_by_coqui(voice)
    check_weights(xtts, checkpoint, base, decoder)
    check_decoder(xtts, base, voice)
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
    load_voice(VoiceSpec(str(voice), tos_agreed=True))
