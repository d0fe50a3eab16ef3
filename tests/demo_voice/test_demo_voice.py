"""`make demo-voice` shortened: every stage, from sentences to a folder that speaks."""

import hashlib
import itertools
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from demo_voice import codec, packaging
from demo_voice.__main__ import FILES, STAGES, Making
from demo_voice.gpt import targets
from demo_voice.recipe import CHARACTERS, SHORT
from demo_voice.teachers import flite
from demo_voice.teachers.flite import SpeakingStyle
from demo_voice.teachers.people import PEOPLE
from demo_voice.text import lexicon
from demo_voice.text import sentences as text
from demo_voice.text.lexicon import Lexicon
from demo_voice.text.sentences import Grammar
from machine.errors import SotaqueError
from xtts.inference import speech
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend
from xtts.inference.voice import voice_from_reference
from xtts.model.loading import load_model
from xtts.voices.base_models import DEMO

FEW_WORDS = Lexicon(
    nouns=("table", "door", "garden"),
    verbs=("open", "carry", "see"),
    adjectives=("old", "green"),
    adverbs=("slowly",),
    irregular={"see": ("saw", "seen")},
    glosses=("a small table; `a green door'",) * 12,
)


def humming(text: str, manner: SpeakingStyle) -> np.ndarray:
    """A teacher for machines without flite: a hum whose pitch is the voice's."""
    seconds = 1.2 + 0.02 * len(text)
    time = np.arange(int(seconds * flite.RATE)) / flite.RATE
    pitch = 90 * float(manner.shift) + 40 * ("slt" in manner.name)
    wave = sum(np.sin(2 * np.pi * pitch * n * time) / n for n in range(1, 9))
    return (wave * np.sin(7 * time) * 3000).astype(np.int16)


def nothing(text: str, manner: SpeakingStyle) -> list[tuple[str, float]]:
    """What a hum says."""
    return [("pau", 0.3), ("hum", 0.8), ("ow", 9.0)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Making:
    """A voice made by the shortened recipe."""
    folder = tmp_path_factory.mktemp("making")
    making = Making(SHORT, folder / "work", folder / "demo", torch.device("cpu"), humming, nothing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexicon, "read", lambda: FEW_WORDS)
        making.run()
    return making


def test_the_folder_speaks(made):
    model = load_model(made.to)
    assert model.config.weights == "trained"
    assert model.config.text_frontend == "cmu_phones"
    assert model.config.piece_tokens == SHORT.piece_tokens
    # Hums have no words: nothing to follow was learned, and that is said, not measured again.
    assert model.config.alignment_heads == ()
    hum = torch.from_numpy(humming("x", flite.MANNERS[0]).astype(np.float32) / 32768)
    voice = voice_from_reference(model, hum)
    assert (
        len(speech.synthesize(TorchBackend(model), voice, SynthesisRequest("Hello there.", "en")))
        > 0
    )


def test_the_embedded_voice_names_the_heads_that_packing_would(tmp_path):
    for file in DEMO.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    content = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    named = content["sotaque"].pop("alignment_heads")
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    packaging.name_heads(tmp_path)
    found = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert sorted(found["sotaque"].pop("alignment_heads")) == sorted(named)
    assert found == content


def test_the_card_has_the_hashes_of_the_files():
    card = (DEMO / "CARD.md").read_text(encoding="utf-8")
    for name in FILES:
        digest = hashlib.sha256((DEMO / name).read_bytes()).hexdigest()
        assert f"| {name} | `{digest}` |" in card


def test_the_learned_weights_are_those_packed(made):
    learned = torch.load(made.work / "pretraining.pt", weights_only=True)["pupil"]
    packed = load_model(made.to).gpt.text_embedding.weight
    torch.testing.assert_close(packed, learned["gpt.text_embedding.weight"].half().float())


def test_finished_stages_are_skipped(made):
    before = (made.work / "codec.pt").stat().st_mtime_ns
    made.run([stage for stage in STAGES if stage not in ("clips", "package")])
    assert (made.work / "codec.pt").stat().st_mtime_ns == before


def test_ids_are_the_tokenizer_s(made):
    tokenizer = load_model(made.to).tokenizer
    speech = flite.TeacherSpeech(made.work / "clips")
    found = targets.Targets.read(speech, made.work / "targets")
    for clip, ids in zip(found.clips, found.tokens, strict=True):
        assert tokenizer.encode(clip.text, "en") == ids.tolist()
    assert made.recipe.gpt.text_ids == len(CHARACTERS)
    words = [len(text.split(clip.text)) for clip in speech.clips]
    assert sum(13 <= number <= 40 for number in words) == SHORT.lengthy + SHORT.lengthy_neighbouring


def test_codes_are_those_of_the_packed_codec(made):
    from xtts.model.vocoder import load_dvae

    speech = flite.TeacherSpeech(made.work / "clips")
    dvae, stats = codec.load(made.work, made.recipe)
    packed = load_dvae(made.to, load_model(made.to).config)
    mel = codec.mel_of(speech, 0, stats)[None]
    same = dvae.get_codebook_indices(mel) == packed.get_codebook_indices(mel)
    assert same.float().mean() > 0.9


def test_sentences_differ_and_leave_out_the_judged():
    def drawn(unseen: set[str]) -> list[str]:
        return list(itertools.islice(text.sentences(Grammar(FEW_WORDS, "a"), unseen), 50))

    first = drawn(set())
    again = drawn({text.plain(first[3])})
    assert len({text.plain(line) for line in first}) == 50
    assert text.plain(first[3]) not in {text.plain(line) for line in again}
    assert drawn(set()) == first


def test_words_are_inflected_and_without_wordnet_its_package_is_named(tmp_path):
    forms = [text.past(verb, FEW_WORDS) for verb in ("see", "carry", "open", "close")]
    assert forms == ["saw", "carried", "opened", "closed"]
    with pytest.raises(SotaqueError, match="wordnet-base"):
        lexicon.read(tmp_path)


def test_a_stopped_teacher_goes_on(tmp_path):
    planned = flite.plan([f"Sentence {n}." for n in range(3)], 1, flite.MANNERS)
    flite.speak_all(planned, tmp_path, humming)

    def refuses(text: str, manner: SpeakingStyle) -> np.ndarray:
        raise AssertionError("already spoken")

    flite.speak_all(planned, tmp_path, refuses)
    speech = flite.TeacherSpeech(tmp_path)
    assert [clip.text for clip in speech.clips] == [line for line, _ in planned]
    wanted = humming(*planned[1]).astype(np.float32) / 32768
    np.testing.assert_allclose(speech.samples(1).numpy(), wanted)


def test_the_demo_datasets_voice_is_held_out():
    assert "awb" not in {manner.voice for manner in PEOPLE.values()}
    assert all(manner.shift > Fraction(1, 2) for manner in flite.MANNERS)


@pytest.mark.slow
def test_goes_on_from_a_packed_voice(made, tmp_path, monkeypatch):
    monkeypatch.setattr(lexicon, "read", lambda: FEW_WORDS)
    again = replace(
        made, recipe=SHORT.continued(), work=tmp_path, to=tmp_path / "demo", begin=made.to
    )
    (tmp_path / "clips").symlink_to(made.work / "clips")
    again.run()
    first, second = load_model(made.to), load_model(again.to)
    torch.testing.assert_close(second.mel_stats, first.mel_stats)
    for file, stage in zip(("codec", "pretraining", "tuning"), SHORT.again, strict=True):
        assert torch.load(tmp_path / f"{file}.pt")["step"] == stage.steps
    codes = (torch.load(voice / "dvae.pth")["codebook.embed"] for voice in (made.to, again.to))
    assert 0 < float(torch.dist(*codes)) < 1.0  # it learned on, from what there was
    assert not torch.equal(second.gpt.mel_head.weight, first.gpt.mel_head.weight)
