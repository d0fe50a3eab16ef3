"""`python -m train extend` and `check` from the command line, for a new language."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from extras.languages.rows import TABLES
from tests.extras.languages.languages import GREEK, make_greek
from train.base_model import check_base
from train.checkpointing.checkpoints import Checkpoints
from train.evaluation.conclusion import keep_best_blend
from xtts.inference.compute_config import ComputeConfig
from xtts.model.config import Extension, ModelConfig
from xtts.model.gpt import to_coqui
from xtts.model.loading import load_gpt, read_tensors
from xtts.text.errors import TextError
from xtts.text.tokenizer import Tokenizer
from xtts.voices.base_models import DEMO
from xtts.voices.evaluation_file import Verdict
from xtts.voices.run_folder import RunFolder, read_checkpoint
from xtts.workers.requests import TunedVoice
from xtts.workers.tasks import FileSpeaker


@pytest.fixture
def extended(check, tmp_path):
    """The tiny base with Greek added, and the output."""
    make_greek(tmp_path / "greek")
    code, said = check("--language", "el", "--dataset", "greek", "--to", "base-el", verb="extend")
    assert code == 0, said
    return tmp_path / "base-el", said


def test_check_tells_what_the_vocabulary_lacks_and_what_to_do(check, tmp_path):
    make_greek(tmp_path / "data")
    code, said = check(LANGUAGE="el")
    assert code == 2 and "Language 'el' is not one of this model's: en, pt" in said
    assert "Characters to be added to the vocabulary:" in said
    line = next(line for line in said.splitlines() if line.startswith("  θ  "))
    assert "times: " in line and "θ" in line.partition("times: ")[2]
    assert "8 readable transcripts, 0.0 h of sound" in said and "about 100 h" in said
    assert "[el], initialised from [" in said and "Numbers are read by ICU's rules" in said
    assert "-m train extend --language el --dataset data --to bases/el" in said
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


def test_the_extended_base_is_a_base_that_says_what_was_added(extended, base_folder):
    folder, said = extended
    check_base(folder)
    config, before = ModelConfig.read(folder), ModelConfig.read(base_folder)
    assert config.languages == (*before.languages, "el")
    (added,) = config.extensions
    assert isinstance(added, Extension) and added.language == "el"
    assert added.first_id == before.gpt.text_ids
    assert config.gpt.text_ids == before.gpt.text_ids + added.num_ids
    assert f"BASE_MODEL={folder.name} LANGUAGE=el" in said.replace(str(folder), folder.name)
    state, old = (read_tensors(base / "model.pth") for base in (folder, base_folder))
    for name, tensor in old.items():
        assert torch.equal(state[name][: len(tensor)] if tensor.dim() else state[name], tensor)
    assert {name for name in old if state[name].shape != old[name].shape} == set(TABLES)


def test_old_texts_have_their_ids_and_the_same_logits_bit_for_bit(extended, base_folder):
    folder, _ = extended
    configs = [ModelConfig.read(base) for base in (base_folder, folder)]
    old, new = (Tokenizer(c, f) for c, f in zip(configs, (base_folder, folder), strict=True))
    generator = torch.Generator().manual_seed(1)
    latents = torch.randn(1, 32, configs[0].gpt.width, generator=generator)
    gpts = [
        load_gpt(read_tensors(base / "model.pth"), config).eval()
        for base, config in zip((base_folder, folder), configs, strict=True)
    ]
    for text in ("The quick brown fox, 21 times.", "Then he · went?"):
        ids = old.encode(text, "en")
        assert new.encode(text, "en") == ids
        with torch.no_grad():
            seen = [gpt.final_norm(gpt.gpt(gpt.prefix(latents, torch.tensor(ids)))) for gpt in gpts]
        assert torch.equal(*seen)
        assert torch.equal(*(gpt.mel_head(latents) for gpt, latents in zip(gpts, seen, strict=True)))
        heads = [
            gpt.text_head(latents)[..., : configs[0].gpt.text_ids]
            for gpt, latents in zip(gpts, seen, strict=True)
        ]
        assert torch.equal(*heads)


def test_the_new_language_is_read_without_unknown_pieces(extended):
    folder, _ = extended
    tokenizer = Tokenizer(ModelConfig.read(folder), folder)
    for text in GREEK:
        assert tokenizer.read(text, "el").missing == []
    assert tokenizer.read("Θέλω 5 ΨΩΜΙΆ.", "el").normal == "θέλω πέντε ψωμιά."
    assert tokenizer.token(tokenizer.encode("Θέλω 5.", "el")[0]) == "[el]"
    with pytest.raises(TextError, match="missing from its vocabulary"):
        tokenizer.encode("Привет", "el")


def test_a_sign_of_the_new_language_is_still_unknown_in_an_old_one(extended, base_folder):
    folder, _ = extended
    old, new = (Tokenizer(ModelConfig.read(base), base) for base in (base_folder, folder))
    assert new.read("Then he · went?", "en").missing == old.read("Then he · went?", "en").missing == ["·"]
    assert new.read("Αύριο · θα πάμε.", "el").missing == []


@pytest.mark.slow
def test_a_run_on_the_extended_base_learns_it_and_another_vocabulary_cannot_resume_it(
    extended, check, tmp_path
):
    folder = shutil.copytree(extended[0], tmp_path / "base")
    config = json.loads((folder / "config.json").read_text())
    config["sotaque"].setdefault("training", {})["freeze"] = "text_embedding,text_head"
    (folder / "config.json").write_text(json.dumps(config))
    settings = {
        "BASE_MODEL": str(folder),
        "DATASET_DIR": "greek",
        "LANGUAGE": "el",
        "NUM_EPOCHS": "1",
        "OUTPUT_DIR": "out",
        "RUNS_DIR": "runs",
        "TENSORBOARD": "off",
        "SAMPLE_DEVICE": "off",
        "SUSPECT_CLIPS": "keep",
        "BATCH_SECONDS": "10",
        "LEARNING_RATE": "1e-3",
    }
    code, said = check(verb="run", **settings)
    assert code == 0 and "0 refused" in said, said
    (saved,) = (tmp_path / "out/checkpoints").glob("checkpoint_epoch_*.pt")
    epoch = read_checkpoint(saved)
    assert epoch.provenance["language"] == "el"
    assert "of el; they learn at 10 times the rate" in said
    assert "Rehearsal: " in said and "that the base spoke" in said
    first = ModelConfig.read(folder).extensions[0].first_id
    before = read_tensors(folder / "model.pth")
    for name in TABLES:
        assert torch.equal(epoch.model[name][:first], before[name][:first])
        assert not torch.equal(epoch.model[name][first:], before[name][first:])
    # The model cannot speak yet, so the verdict is made up; the blend is real.
    run = RunFolder(tmp_path / "out")
    verdict = Verdict("blend", 1, 0.5, "", "", False, run.verified(1).sha256)
    keep_best_blend(Checkpoints(run, None), verdict, folder)
    blended = read_checkpoint(run.best_blend).model
    assert all(torch.equal(blended[name][first:], epoch.model[name][first:]) for name in TABLES)
    assert any(not torch.equal(blended[name], tensor) for name, tensor in epoch.model.items())
    # The written blend is the judged one.
    speaker = FileSpeaker(folder, ComputeConfig(precision="fp32"))
    asked = TunedVoice(DEMO / "reference.wav", saved, 0.5)
    judged, _ = speaker.load_voice(*speaker.read_reference(asked), asked)
    learned = to_coqui(judged.gpt.state_dict())
    assert all(torch.equal(learned[name], blended[name]) for name in TABLES)
    # A voice exported from it has learned the language.
    code, said = check("--checkpoint", str(run.best_blend), "--to", "voice", verb="export", **settings)
    assert code == 0, said
    config, exported = ModelConfig.read(folder), ModelConfig.read(tmp_path / "voice")
    assert exported.languages == config.languages and config.unlearned
    assert exported.extensions == tuple(replace(extension, learned=True) for extension in config.extensions)
    of_base, of_voice = Tokenizer(config, folder), Tokenizer(exported, tmp_path / "voice")
    assert of_voice.encode(GREEK[5], "el") == of_base.encode(GREEK[5], "el")
    # The same weights with another vocabulary: two new ids are swapped.
    shutil.copytree(folder, other := tmp_path / "other")
    vocabulary = json.loads((other / "vocab.json").read_text(encoding="utf-8"))
    ids = vocabulary["model"]["vocab"]
    ids["α"], ids["θ"] = ids["θ"], ids["α"]
    (other / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    code, said = check(verb="run", **settings | {"BASE_MODEL": "other", "NUM_EPOCHS": "2"})
    assert code == 2 and "the vocabulary of the base model (vocab.json) has changed" in said, said
    assert "the base model (BASE_MODEL)" not in said


def test_a_table_beside_the_clips_reads_signs_wherever_the_base_is_read(check, tmp_path):
    make_greek(tmp_path / "greek", (*GREEK, "Κοστίζει 21€ & τέλος."))
    (tmp_path / "greek" / "normalization.txt").write_text("€ = ευρώ\n& = και\n", "utf-8")
    code, said = check("--language", "el", "--dataset", "greek", "--to", "base", verb="extend")
    assert code == 0 and "normalization.txt reads 2 signs and abbreviations" in said
    assert "cannot be read" not in said and "Signs that are not added" not in said
    tokenizer = Tokenizer(ModelConfig.read(tmp_path / "base"), tmp_path / "base")
    assert tokenizer.read("Κοστίζει 21€ & τέλος.", "el").normal == "κοστίζει είκοσι ένα ευρώ και τέλος."
    assert tokenizer.read("21€", "el").missing == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--language", "pt", "--to", "b"), "already speaks 'pt'"),
        (("--language", "el", "--to", "b", "--like", "fr"), "the base has tags for en, pt"),
        (("--language", "el", "--to", "data"), "which no export wrote"),
        (("--language", "el"), "extend needs --to"),
        (("--language", "el", "--to", "b", "--pieces", "-1"), "give a number of at least 0"),
    ],
)
def test_what_cannot_be_extended_is_refused_in_one_sentence(check, tmp_path, words, reason):
    make_greek(tmp_path / "data")
    code, said = check(*words, verb="extend")
    assert code == 2 and reason in said and "Traceback" not in said
    assert not (tmp_path / "b").exists()


def test_digits_in_a_language_without_numerals_are_told_once_by_name(check, tmp_path):
    make_greek(tmp_path / "data", ("Tēnā koe e hoa.", "Kei te pēhea koe?", "E 5 ngā manu."))
    code, said = check(LANGUAGE="mi")
    assert code == 2 and said.count("ICU lacks numerals for 'mi'") == 1
    assert "1 transcripts cannot be read, such as" in said and "Write it in words" in said
