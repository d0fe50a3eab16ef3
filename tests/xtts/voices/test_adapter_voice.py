"""An exported adapter as a voice: alone with its base, and together with the base's voice."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from machine.storage.checksums import sha256_of
from machine.storage.files import Written
from tests.models import tiny_voice
from tests.xtts.inference.crowds import batcher_of, sounds_of
from tests.xtts.voices.adapters import exported_adapter
from tests.xtts.voices.decoders import shifted_decoder
from xtts.__main__ import main
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices import adapter_file, bundle, learned_decoder
from xtts.voices.base_models import BundleError
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec, find_voice

ASK = SynthesisRequest("hello there", "en", max_codes=20)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_voice(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture(scope="module")
def anna(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported_adapter(tmp_path_factory.mktemp("adapters") / "anna", base, seed=1)


def test_it_speaks_with_its_base_and_otherwise_than_the_base(base, anna):
    files = find_voice(VoiceSpec(str(anna)))
    assert (files.folder, files.weights) == (base, base / "model.pth")
    voice, plain = load_voice(files), load_voice(VoiceSpec(str(base), reference=files.reference))
    assert torch.equal(voice.own_voice.latents, plain.own_voice.latents)
    assert not np.array_equal(voice.synthesize(ASK), plain.synthesize(ASK))
    # It also speaks with another recording, as the weights of a checkpoint do.
    other = load_voice(VoiceSpec(str(anna), reference=base / "reference.wav"))
    assert other.own_voice.adapter is not None
    assert not torch.equal(other.own_voice.latents, voice.own_voice.latents)


def test_beside_its_base_it_takes_no_second_model(base, anna):
    standing = load_voice(VoiceSpec(str(base)))
    voice = load_voice(VoiceSpec(str(anna)), others={"served": standing})
    assert voice.model.gpt is standing.model.gpt
    assert voice.model.vocoder is standing.model.vocoder
    assert np.array_equal(voice.synthesize(ASK), load_voice(VoiceSpec(str(anna))).synthesize(ASK))
    assert standing.own_voice.adapter is None


def test_in_the_base_s_batch_each_is_what_it_is_alone(base, anna, tmp_path):
    """As the service speaks: the folder of an adapter takes the place of a recording."""
    standing = load_voice(VoiceSpec(str(base)))
    folders = [anna, exported_adapter(tmp_path / "ben", base, seed=2)]
    voices = {adapter.name: standing.voice_of(adapter, None) for adapter in folders} | {
        "": standing.own_voice
    }
    batcher = batcher_of(standing, 4)
    for name, voice in voices.items():
        batcher.enter(name, voice, ASK)
    together: dict[str, list[np.ndarray]] = {name: [] for name in voices}
    while not batcher.empty:
        for output in batcher.step():
            assert output.error is None
            together[output.name] += [np.asarray(chunk) for chunk in output.chunks]
    for name, voice in voices.items():
        alone = sounds_of(batcher_of(standing, 4), voice, {"one": ASK})["one"]
        assert np.array_equal(np.concatenate(together[name]), alone)
    assert len({np.concatenate(sound).tobytes() for sound in together.values()}) == 3


def test_a_learned_decoder_comes_along(base, tmp_path):
    folder = exported_adapter(tmp_path / "anna", base, seed=1)
    path = folder / bundle.DECODER_FILE
    shifted_decoder(path, base, tmp_path / "checkpoint_epoch_1.pt", 1.5, sha256="c" * 64)
    learned_decoder.manifest_beside(path).unlink()
    told = bundle.read(folder)
    written = Written(sha256_of(path), path.stat().st_size)
    bundle.write(folder, replace(told, files={**told.files, bundle.DECODER_FILE: written}))
    voice, standing = load_voice(VoiceSpec(str(folder))), load_voice(VoiceSpec(str(base)))
    learned = learned_decoder.read_tensors(path)
    for vocoder in (voice.own_voice.vocoder, standing.voice_of(folder, None).vocoder):
        loaded = dict(vocoder.named_parameters())["waveform_decoder.conv_pre.bias"]
        tensor = learned["hifigan_decoder.waveform_decoder.conv_pre.bias"]
        assert torch.equal(loaded, tensor.to(loaded.dtype))
    other = load_voice(VoiceSpec(str(folder), reference=base / "reference.wav"))
    assert other.own_voice.vocoder is None


def test_an_adapter_of_another_base_is_refused_by_its_name(base, anna, tmp_path):
    other = tiny_voice(tmp_path / "other", seed=5)
    ben = exported_adapter(tmp_path / "ben", other, seed=2)
    standing = load_voice(VoiceSpec(str(base)))
    with pytest.raises(BundleError, match=r"ben is an adapter of .*SHA-256 .*Load the base"):
        standing.voice_of(ben, None)
    with pytest.raises(BundleError, match=r"anna was made from .* Name the folder of the"):
        find_voice(VoiceSpec(str(anna), base=str(other)))
    moved = VoiceSpec(str(ben), base=str(other.rename(tmp_path / "moved")))
    assert load_voice(moved).own_voice is not None
    with pytest.raises(BundleError, match=r"bundle\.json cannot be read"):
        standing.voice_of(tmp_path / "moved", None)


@pytest.mark.parametrize("name", [adapter_file.FILE_NAME, "reference.wav"])
def test_a_changed_file_is_named_and_nothing_speaks(base, tmp_path, name):
    folder = exported_adapter(tmp_path / "anna", base, seed=1)
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    standing = load_voice(VoiceSpec(str(base)))
    with pytest.raises(BundleError, match=name):
        load_voice(VoiceSpec(str(folder)))
    with pytest.raises(BundleError, match=name):
        standing.voice_of(folder, None)


def test_a_file_that_is_no_adapter_of_ours_is_a_sentence(base, tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"a": torch.zeros(3)}, path)
    with pytest.raises(BundleError, match="does not name its base model"):
        adapter_file.read(path)
    path.write_bytes(b"no")
    with pytest.raises(BundleError, match="cannot be read"):
        adapter_file.read(path)


def test_the_command_line_speaks_with_it(anna, tmp_path, capfd):
    out = tmp_path / "out.wav"
    words = ["speak", "--voice", str(anna), "--text", "hello", "--guard", "off", "--out", str(out)]
    assert main(words) == 0 and out.is_file()
