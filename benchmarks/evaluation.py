"""`python -m benchmarks evaluation` checks whether a run chooses the right candidate.

For each seed it fine-tunes the embedded voice on the demo dataset with default settings, as `make
train` does. Every candidate of that run (base, epochs, blends) then speaks the reporting set, which
the evaluation never sees, and pocketsphinx counts word errors. The guard is off, as in an
evaluation: the weights are judged, without repairs of their speech. The figure is the gap between
the chosen candidate and the best one. Each result is written immediately as a line of JSON;
`--resume` continues.
"""

import argparse
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import judges, measuring, texts
from machine.errors import SotaqueError
from train.evaluation.verdict import decide
from xtts import audio
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.base_models import DEMO
from xtts.voices.evaluation_file import Candidate, Evaluation, read_evaluation
from xtts.voices.run_folder import RunFolder
from xtts.workers import tasks as worker_tasks
from xtts.workers.requests import EvaluateRequest, SentenceTask, SpeakingRate, TunedVoice
from xtts.workers.tasks import FileSpeaker

DATASET = Path("train/data/demo")
# The recogniser is unreliable on shorter texts; longer ones would take most of the time.
WORDS = range(4, 13)
# Every candidate speaks with this seed.
SEED = 0
# The goal: word errors of the chosen candidate above the fewest, in percentage points.
WITHIN = 2.0
# The run's seed, kind, epoch, share and checkpoint.
Key = tuple[int, str, int, float, str]


@dataclass(frozen=True)
class HeardCandidate:
    """The recogniser's result for one candidate of one run.

    Attributes:
        seed: The seed of the run; 0 for the base, which is the same in every run.
        kind, epoch, share, checkpoint_sha256: As in evaluation.json.
        set: The name of the set of sentences.
        errors, words: The number of word errors and of words of each sentence.
        unfinished: Sentences that did not end by themselves.
    """

    seed: int
    kind: str
    epoch: int
    share: float
    checkpoint_sha256: str
    set: str
    errors: list[int]
    words: list[int]
    unfinished: int

    @property
    def key(self) -> Key:
        """As `key_of` the candidate."""
        return self.seed, self.kind, self.epoch, self.share, self.checkpoint_sha256

    @property
    def percent(self) -> float:
        """Word error rate in percent."""
        return 100 * sum(self.errors) / sum(self.words)


def key_of(seed: int, one: Candidate) -> Key:
    """Identifies a candidate of a run."""
    of_run = 0 if one.kind == "base" else seed
    return of_run, one.kind, one.epoch, one.share, one.checkpoint_sha256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=_seeds, default=[*range(1, 11)], help="such as 1-10 or 3,5")
    parser.add_argument("--set", choices=texts.FILES, default="reporting", help="set of sentences")
    parser.add_argument(
        "--work", type=Path, default=Path("build/evaluation"), help="folder of runs, results"
    )
    parser.add_argument("--resume", action="store_true", help="continue with what is in --work")
    parser.add_argument("--threads", type=int, default=1, help="threads of the recogniser")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Recognises the speech of candidates without a result; returns all figures. Raises
    SotaqueError."""
    work: Path = arguments.work
    results = work / "heard.jsonl"
    if results.exists() and not arguments.resume:
        raise SotaqueError(
            f"{results} holds results already; --resume goes on with them, or name another --work."
        )
    work.mkdir(parents=True, exist_ok=True)
    runs = {}
    for seed in arguments.seeds:
        runs[seed] = evaluated(work, seed)
        for candidate in missing(runs[seed], seed, arguments.set, known(results)):
            told = listened(work / f"seed_{seed}", runs[seed], seed, candidate, arguments)
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(told)) + "\n")
    return figures(runs, [one for one in known(results) if one.set == arguments.set])


def _seeds(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return [*range(int(first), int(last) + 1)] if last else [int(one) for one in text.split(",")]


# ---- runs, and their recognised speech ----


def evaluated(work: Path, seed: int) -> Evaluation:
    """The evaluation of a seed's run, trained or finished if necessary. The verdict follows the
    current rule, so a changed rule does not need new speech.

    Raises SotaqueError.
    """
    folder, log = work / f"seed_{seed}", work / f"seed_{seed}.log"
    measuring.train_once(
        work / f"seed_{seed}.done",
        log,
        work,
        seed=seed,
        output_dir=folder,
        keep_checkpoints="all",
        dataset_dir=DATASET,
    )
    found = read_evaluation(RunFolder(folder).evaluation_file)
    if found is None or found.verdict is None:
        raise SotaqueError(f"{folder} has no verdict; see {log}.")
    told, verdict = decide(found.candidates)
    return replace(found, candidates=told, verdict=verdict)


def missing(
    run: Evaluation, seed: int, name: str, there: Iterable[HeardCandidate]
) -> list[Candidate]:
    """Candidates without a result, blends first, since most verdicts are blends."""
    keys = {one.key for one in there if one.set == name}
    found = [one for one in run.candidates if key_of(seed, one) not in keys]
    return sorted(found, key=lambda one: one.kind != "blend")


def listened(
    folder: Path, run: Evaluation, seed: int, one: Candidate, arguments: argparse.Namespace
) -> HeardCandidate:
    """Has a candidate speak the set, like the sample worker, and recognises the speech."""
    lines = sentences(arguments.set)
    reference = RunFolder(folder).samples / run.person["reference"]
    rate = SpeakingRate(run.person["codes_per_token"], run.person["codes_per_sentence"])
    weights = None if one.kind == "base" else RunFolder(folder).checkpoint_path(one.epoch)
    compute = ComputeConfig(threads=arguments.threads)
    compute.apply()
    speaker = FileSpeaker(DEMO, compute)
    with tempfile.TemporaryDirectory() as name:
        wavs = [Path(name) / f"{number}.wav" for number in range(len(lines))]
        tasks = tuple(
            SentenceTask(SynthesisRequest(text, "en", SEED + number), out=wav)
            for number, (text, wav) in enumerate(zip(lines, wavs, strict=True))
        )
        # Without the evaluation's judge of words, which would take half of the time.
        with mock.patch.object(worker_tasks, "evidence", lambda *_: []):
            said = speaker.ask(
                EvaluateRequest(tasks, TunedVoice(reference, weights, one.share), rate)
            )
        heard = [judges.words_heard(audio.read(wav, audio.SPEAKER_RATE)) for wav in wavs]
    counted = [judges.counted_errors(*pair) for pair in zip(lines, heard, strict=True)]
    errors, words = (list(column) for column in zip(*counted, strict=True))
    unfinished = sum(not spoken.finished for spoken in said.sentences)
    return HeardCandidate(*key_of(seed, one), arguments.set, errors, words, unfinished)


def sentences(name: str) -> list[str]:
    """The sentences of a set with 4 to 12 words."""
    return [text for text in texts.sentences(name) if texts.num_words(text) in WORDS]


def known(results: Path) -> list[HeardCandidate]:
    """All results so far, without an incomplete last line."""
    if not results.exists():
        return []
    lines = results.read_text(encoding="utf-8").split("\n")[:-1]
    return [HeardCandidate(**json.loads(line)) for line in lines]


# ---- figures ----


def figures(runs: Mapping[int, Evaluation], heard: Sequence[HeardCandidate]) -> dict[str, Any]:
    """The gap between each chosen candidate and the one with the fewest word errors."""
    percent = {one.key: one.percent for one in heard}
    rows = [verdict_row(seed, run, percent) for seed, run in runs.items()]
    return {
        "guard": "off",
        "sentences": len(heard[0].words) if heard else 0,
        "words": sum(heard[0].words) if heard else 0,
        "seeds": rows,
        "within": sum(row["behind"] <= WITHIN for row in rows),
    }


def verdict_row(seed: int, run: Evaluation, percent: Mapping[Key, float]) -> dict[str, Any]:
    """One run: word errors in percent of every candidate, of the chosen and of the best one."""
    errors = {
        one.name: round(percent[key_of(seed, one)], 1)
        for one in run.candidates
        if key_of(seed, one) in percent
    }
    chosen = run.best
    assert chosen is not None
    best = min(errors, key=lambda name: errors[name])
    return {
        "seed": seed,
        "spoken": len(run.candidates[0].sentences),
        "errors": errors,
        "chosen": chosen.name,
        "best": best,
        "behind": round(errors[chosen.name] - errors[best], 1),
        "behind_base": round(errors[chosen.name] - errors["base"], 1),
    }
