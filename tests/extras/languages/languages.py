"""Small datasets in languages that the tiny base does not speak."""

from pathlib import Path

from extras.languages.extension import write
from extras.languages.extension_plan import plan_of
from tests.datasets import make_dataset
from tests.models import tiny_voice
from train.settings import TrainSettings

# Greek, with numbers and Greek punctuation; the tiny base lacks its letters.
GREEK = (
    "Καλημέρα, τι κάνεις σήμερα;",
    "Ο ουρανός είναι γαλανός και η θάλασσα ήρεμη.",
    "Θέλω 5 ψωμιά και 12 αυγά.",
    "Πού είναι ο σταθμός του τρένου;",
    "Η γιαγιά μου μένει στο χωριό.",
    "Αύριο θα πάμε στη θάλασσα · το είπε ο Νίκος.",
    "Το βιβλίο κοστίζει 21 ευρώ.",
    "Καλή όρεξη, είπε η μητέρα.",
)


def make_greek(folder: Path, texts: tuple[str, ...] = GREEK) -> Path:
    """A dataset of these texts, one clip each."""
    make_dataset(folder, clips=len(texts))
    rows = (f"clip-{number}|{text}" for number, text in enumerate(texts))
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def greek_voice(folder: Path) -> Path:
    """A tiny voice with Greek added."""
    settings = TrainSettings(dataset_dir=make_greek(folder / "greek"), language="el")
    write(plan_of(settings, tiny_voice(folder / "base")), folder / "base-el")
    return folder / "base-el"
