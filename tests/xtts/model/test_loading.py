"""A model folder is read, or refused with the name of the bad file. With little memory it makes the
same sound and the same voices, and keeps less."""

import shutil
from pathlib import Path

import pytest
import torch

from machine.memory import MappedFiles
from tests.models import drawn_voice, tiny_base
from xtts.inference import speech, voice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend
from xtts.inference.voice import Voice, VoiceError
from xtts.model import loading
from xtts.model.blending import blend
from xtts.model.config import ConfigError, Extension
from xtts.model.gpt import GPT, PREFIX, TEXT_TABLES, to_coqui
from xtts.model.loading import LISTENING_PREFIXES, Model, load_gpt, load_model, mel_stats, read_tensors
from xtts.workers.tasks import read_speakers

TEXT = "one two three."


def rewritten(base: Path, to: Path, **changed: torch.Tensor | None) -> Path:
    """A copy whose model.pth has other tensors; None removes one."""
    shutil.copytree(base, to)
    state = dict(read_tensors(base / "model.pth")) | changed
    tensors = {name: tensor.clone() for name, tensor in state.items() if tensor is not None}
    torch.save({"model": tensors}, to / "model.pth")
    return to


def test_a_loaded_model_speaks_only_and_is_not_the_file_and_a_learning_part_learns(base_folder):
    model = load_model(base_folder)
    state = read_tensors(base_folder / "model.pth")
    assert (model.kind, model.device.type) == ("fp32", "cpu")
    assert not model.gpt.training and not any(p.requires_grad for p in model.gpt.parameters())
    assert all(p.requires_grad for p in load_gpt(state, model.config).parameters())
    assert load_model(base_folder, precision="auto", low_memory=True).kind == "int8"
    with torch.no_grad():
        model.gpt.text_head.bias.add_(1.0)
    again = read_tensors(base_folder / "model.pth")
    assert torch.equal(again["gpt.text_head.bias"], state["gpt.text_head.bias"])


def test_another_learning_part_takes_the_place_of_the_first(base_folder):
    model = load_model(base_folder)
    vocoder, other = model.vocoder, GPT(model.config.gpt)
    model.unload_gpt()
    assert next(model.gpt.parameters()).is_meta
    model.load_gpt(to_coqui(other.state_dict()))
    assert torch.equal(model.gpt.mel_head.weight, other.mel_head.weight)
    assert model.vocoder is vocoder and not model.gpt.training


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (None, "lacks the tensor gpt.text_head.bias"),
        (torch.zeros(3), r"gpt.text_head.bias is \[3\], but config.json"),
    ],
)
def test_weights_of_another_model_are_refused(base_folder, tmp_path, changed, words):
    folder = rewritten(base_folder, tmp_path / "other", **{"gpt.text_head.bias": changed})
    with pytest.raises(ConfigError, match=words):
        load_model(folder)


def test_a_file_that_holds_no_weights_is_refused_and_what_coquis_trainer_saved_is_read(tmp_path):
    path = tmp_path / "model.pth"
    with pytest.raises(ConfigError, match=r"model\.pth is missing"):
        read_tensors(path)
    for content in (b"", b"no weights", b"PK\x03\x04 cut short"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"model\.pth cannot be read as model weights") as told:
            read_tensors(path)
        assert "weights_only" not in str(told.value)
    torch.save({"model": {"step": 3}}, path)
    with pytest.raises(ConfigError, match="not every entry is a tensor"):
        read_tensors(path)
    torch.save({"model": {"xtts.gpt.x": torch.ones(2)}}, path)  # one level deeper
    assert read_tensors(path).keys() == {"gpt.x"}


def test_a_blend_lies_between_base_and_checkpoint():
    name = "gpt.text_head.bias"
    base, tuned = {name: torch.tensor([0.0, 4.0])}, {name: torch.tensor([2.0, 0.0])}
    assert blend(base | {"mel_stats": torch.ones(1)}, tuned, 0.25)[name].tolist() == [0.5, 3.0]
    assert blend(base, tuned, 1)[name] is tuned[name]
    with pytest.raises(ConfigError, match=r"gpt\.other is in only one of base and checkpoint"):
        blend(base, tuned | {"gpt.other": torch.ones(1)}, 0.5)
    with pytest.raises(ConfigError, match=r"is \[2\] in the base and \[3\] in the checkpoint"):
        blend(base, {name: torch.ones(3)}, 0.5)


def test_a_blend_takes_an_added_languages_rows_whole_from_the_checkpoint():
    base = {PREFIX + name: torch.zeros(6, 2)[..., 0] for name in TEXT_TABLES}
    base[PREFIX + "text_embedding.weight"] = torch.zeros(6, 2)
    tuned = {name: tensor + 2 for name, tensor in base.items()}
    blended = blend(base, tuned, 0.25, [Extension("uk", "ru", 3, 2)])
    for tensor in blended.values():
        rows = tensor if tensor.dim() == 1 else tensor[:, 0]
        assert rows.tolist() == [0.5, 0.5, 0.5, 2.0, 2.0, 0.5]


def test_the_bands_scales_may_stand_beside_the_weights(tmp_path):
    torch.save(torch.ones(80), tmp_path / "mel_stats.pth")
    assert mel_stats(tmp_path, {"mel_stats": torch.full((80,), 2.0)})[0] == 2.0
    assert mel_stats(tmp_path, {})[0] == 1.0
    with pytest.raises(ConfigError, match=r"mel_stats\.pth is missing"):
        mel_stats(tmp_path / "nowhere", {})


def test_speakers_that_a_base_was_published_with(tmp_path):
    assert read_speakers(tmp_path) == {}
    embedding = torch.ones(1, 512, 1)
    torch.save({"Ana": {"speaker_embedding": embedding}}, tmp_path / "speakers_xtts.pth")
    assert torch.equal(read_speakers(tmp_path)["Ana"], embedding)
    (tmp_path / "speakers_xtts.pth").write_bytes(b"damaged")
    with pytest.raises(ConfigError, match="cannot be read as XTTS-v2's speakers"):
        read_speakers(tmp_path)


@pytest.fixture
def whose() -> Voice:
    return drawn_voice()


@pytest.fixture
def recording() -> torch.Tensor:
    return 0.1 * torch.randn(50_000, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_it_says_the_same_to_the_bit(base_folder, whose, precision):
    whole = load_model(base_folder, precision=precision)
    mapped = load_model(base_folder, precision=precision, low_memory=True)
    sound, other = (
        speech.synthesize(TorchBackend(m), whose, SynthesisRequest(TEXT, "en", max_codes=30))
        for m in (whole, mapped)
    )
    assert torch.equal(sound, other)


def of_the_file(model: Model) -> set[str]:
    """The names of the GPT's weights that are pages of a file."""
    files = MappedFiles.look()
    weights = model.gpt.state_dict().items()
    return {name for name, tensor in weights if files.forget(tensor.data_ptr(), tensor.nbytes)}


def test_what_only_listens_stays_in_the_file_and_yet_it_listens(base_folder, recording):
    whole, mapped = (load_model(base_folder, low_memory=low) for low in (False, True))
    names = {name for name in mapped.gpt.state_dict() if name.startswith(LISTENING_PREFIXES)}
    assert of_the_file(mapped) == names and not of_the_file(whole)
    for _ in range(2):  # the file is read again after its memory is released
        expected, heard = (voice.voice_from_reference(m, recording) for m in (whole, mapped))
        assert torch.equal(heard.latents, expected.latents)
        assert torch.equal(heard.speaker, expected.speaker)


def test_another_epoch_is_spoken_and_heard_with(base_folder, tmp_path, whose, recording):
    other = tiny_base(tmp_path / "other", seed=1)
    learned = read_tensors(other / "model.pth")
    whole, mapped = (load_model(base_folder, low_memory=low) for low in (False, True))
    for model in (whole, mapped):
        model.load_gpt(learned)
    sounds = [
        speech.synthesize(TorchBackend(m), whose, SynthesisRequest(TEXT, "en", max_codes=30))
        for m in (whole, mapped)
    ]
    assert torch.equal(*sounds)
    heard = [voice.voice_from_reference(m, recording).latents for m in (whole, mapped)]
    assert torch.equal(*heard)


def test_who_listens_in_vain_is_let_go_too(base_folder, monkeypatch):
    """A refused recording must not leave pages in memory."""
    mapped, rested = load_model(base_folder, low_memory=True), []
    monkeypatch.setattr(loading, "_release_pages", rested.append)
    with pytest.raises(VoiceError), mapped.listening():
        raise VoiceError("too short")
    assert len(rested) == 1
