"""People who are not the person: how similar their clips are to a voice, on average.

`strangers.json` has a row `[256]` for each of ten LibriSpeech readers: the mean of the embeddings
of their clips by `xtts.evaluation.speaker_judge`, each of length 1. The product with a voice's
embedding is thus the mean cosine of the clips. The sound itself is not in the package.

`python -m train.evaluation.strangers FOLDER` writes the file again, from a folder with a subfolder
of clips for each reader.
"""

import json
import sys
from pathlib import Path

import numpy as np

from machine.storage.files import replace_file

FILE = Path(__file__).parents[1] / "data" / "evaluation" / "strangers.json"
# A row that is closer to the person is the person: two of the ten readers have at most 0.73.
SAME_PERSON_COSINE = 0.85


def stranger_embeddings(person: np.ndarray) -> list[np.ndarray]:
    """The rows of those who are not the person with this embedding of length 1."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))["people"]
    embeddings = [np.asarray(row) for row in rows.values()]
    return [row for row in embeddings if float(row @ person) < SAME_PERSON_COSINE * np.linalg.norm(row)]


def main() -> int:
    """Embeds the clips of each reader, and writes the file."""
    from xtts import audio
    from xtts.evaluation.speaker_judge import RATE, SpeakerJudge, missing_reason, weights_file

    path = weights_file()
    if path is None or len(sys.argv) != 2:
        sys.stderr.write(f"{missing_reason() or 'Name the folder of the readers'}.\n")
        return 2
    judge, people = SpeakerJudge(path), dict[str, list[float]]()
    for folder in sorted(path for path in Path(sys.argv[1]).iterdir() if path.is_dir()):
        clips = [audio.read(clip, RATE) for clip in sorted(folder.glob("*.flac"))]
        mean = np.mean([judge.embedding(clip).numpy() for clip in clips], axis=0)
        people[folder.name] = [round(float(value), 4) for value in mean]
    rows = ",\n".join(f'"{name}": {json.dumps(row)}' for name, row in people.items())
    text = f'{{"encoder": "resemblyzer 0.1.4", "people": {{\n{rows}\n}}}}\n'
    replace_file(FILE, lambda file: file.write(text.encode()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
