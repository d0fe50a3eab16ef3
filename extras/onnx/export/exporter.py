"""Exports a model folder or checkpoint: graphs, tables and vocabulary.

The weights are memory-mapped; each is read, written and released in turn. At XTTS-v2's size this
takes 40 s of one core and at most 2.0 GB.
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor

from extras.onnx import folder as folders
from extras.onnx.export import graphs, weights
from extras.onnx.export.tracing import OPSET, trace
from extras.onnx.folder import OnnxError, OnnxVoice
from machine.storage.checksums import sha256_of
from machine.storage.files import Written, replace_file, writing_to
from machine.storage.folders import replacing_folder
from xtts.inference import latents_file, voice
from xtts.model import loading as model_loading
from xtts.model.config import ConfigError, ModelConfig, with_normalizer
from xtts.model.empty_weights import without_weights
from xtts.model.gpt import GPT, from_coqui
from xtts.model.source_filter import SourceFilter
from xtts.model.vocoder import load_speaker_encoder, load_vocoder
from xtts.text.tokenizer import Tokenizer
from xtts.voices import learned_decoder, speakers
from xtts.voices.voice_files import VoiceFiles


def source_of_folder(folder: Path) -> VoiceFiles:
    """The files of a base model's or an exported voice's folder, with its recording; not
    verified."""
    ModelConfig.read(folder)  # raises if the folder is damaged
    reference = folder / "reference.wav"
    return VoiceFiles(folder, folder / "model.pth", reference if reference.is_file() else None, None)


def export(source: VoiceFiles, to: Path, kinds: Sequence[str] = tuple(folders.GPT_FILES)) -> OnnxVoice:
    """Writes a folder next to `to` and renames it to `to` when it is complete.

    Raises OnnxError if `to` has other content, ConfigError, and WriteError or DiskFull.
    """
    _refuse_others(to)
    model = mapped_model(source.folder, source.state)
    if source.decoder is not None:
        model.vocoder = load_vocoder(learned_decoder.read_tensors(source.decoder), model.config)
    with replacing_folder(to, _folder_bytes(model, kinds)) as part, writing_to(to):
        onnx_voice = OnnxVoice(
            _write_files(part, model, source, kinds),
            tuple(kinds),
            OPSET,
            sha256_of(source.weights),
            source.licence or model.config.licence,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        folders.write(part, onnx_voice)
    return onnx_voice


def mapped_model(folder: Path, learned: Mapping[str, Tensor] | None = None) -> model_loading.Model:
    """The model with its GPT memory-mapped, for reading only.

    Raises ConfigError if the files do not fit each other.
    """
    config = ModelConfig.read(folder)
    state = model_loading.read_tensors(folder / "model.pth")
    with without_weights():
        gpt = GPT(config.gpt)
    tensors = from_coqui(state if learned is None else learned)
    try:
        gpt.load_state_dict({name: tensors[name].float() for name in gpt.state_dict()}, assign=True)
    except (KeyError, RuntimeError) as error:
        first = str(error).splitlines()[-1].strip()
        raise ConfigError(
            f"The weights do not fit {folder / 'config.json'}: {first}. Use files of one model."
        ) from error
    return model_loading.Model(
        config=config,
        device=torch.device("cpu"),
        tokenizer=Tokenizer(config, folder),
        gpt=gpt.eval().requires_grad_(False),
        vocoder=load_vocoder(state, config),
        speaker_encoder=load_speaker_encoder(state, config),
        mel_stats=model_loading.mel_stats(folder, state),
    )


def _write_files(
    part: Path, model: model_loading.Model, source: VoiceFiles, kinds: Sequence[str]
) -> dict[str, Written]:
    files: dict[str, Written] = {}
    # One kind at a time, so that its quantised weights (0.4 GB) are freed before the next.
    traced_step = trace(graphs.step_graph(model.gpt), folded=False)
    for kind in kinds:
        files |= weights.write(*traced_step, part / folders.GPT_FILES[kind], kind)
    del traced_step
    other_graphs = {
        folders.VOCODER_FILE: graphs.vocoder_graph(model.vocoder),
        folders.CONDITIONING_FILE: graphs.conditioning_graph(model.gpt),
        folders.SPEAKER_FILE: graphs.speaker_graph(model.speaker_encoder),
    }
    if isinstance(decoder := model.vocoder.waveform_decoder, SourceFilter):
        other_graphs[folders.SOURCE_FILE] = graphs.source_graph(decoder)
    for name, graph in other_graphs.items():
        files |= weights.write(*trace(graph, folded=True), part / name)
    for name in [name for name in files if name.endswith(".onnx")]:
        onnx.checker.check_model(str(part / name))
    gpt = model.gpt
    parts = (gpt.text_embedding, gpt.text_pos_embedding.emb, gpt.mel_embedding, gpt.mel_pos_embedding.emb)
    tables = torch.cat([part.weight.detach() for part in parts])
    for name, array in ((folders.EMBEDDINGS_FILE, tables), (folders.MEL_STATS_FILE, model.mel_stats)):
        numbers = np.ascontiguousarray(array.numpy(), np.float32)
        files[name] = replace_file(part / name, partial(np.save, arr=numbers))
    # Adds the name of the normaliser, which may be missing in a base model.
    config = with_normalizer(
        json.loads((source.folder / "config.json").read_text(encoding="utf-8")),
        source.normalizer or model.config.normalizer,
    )
    content = json.dumps(config, indent=4, ensure_ascii=False).encode()
    files["config.json"] = replace_file(part / "config.json", lambda file: file.write(content))
    vocabulary = (source.folder / "vocab.json").read_bytes()
    files["vocab.json"] = replace_file(part / "vocab.json", lambda file: file.write(vocabulary))
    if source.reference is not None:
        files[folders.LATENTS_FILE] = _write_latents(model, source.reference, part / folders.LATENTS_FILE)
    write_latents = partial(_write_latents, model)
    return files | speakers.copy_speakers(source.speakers, part, ".safetensors", write_latents)


def _write_latents(model: model_loading.Model, recording: Path, path: Path) -> Written:
    waveform = voice.read_reference(model.config, recording)
    latents_file.write(path, voice.voice_from_reference(model, waveform))
    return Written(sha256_of(path), path.stat().st_size)


def _folder_bytes(model: model_loading.Model, kinds: Sequence[str]) -> int:
    """The size of the folder in bytes: the transformer in each kind, the rest in float32."""
    parts = (model.gpt, model.vocoder, model.speaker_encoder)
    num_weights = sum(tensor.numel() for part in parts for tensor in part.state_dict().values())
    num_transformer_weights = sum(parameter.numel() for parameter in model.gpt.gpt.parameters())
    # In int4, each group of 32 also has a 32-bit scale and a 4-bit zero point.
    bits = sum({"fp32": 32, "int8": 8, "int4": 6}[kind] for kind in kinds)
    return num_transformer_weights * bits // 8 + 4 * (num_weights - num_transformer_weights)


def _refuse_others(to: Path) -> None:
    """Raises OnnxError unless `to` is missing, empty, or contains an earlier export only."""
    if not to.exists():
        return
    if not to.is_dir():
        raise OnnxError(f"--to {to} is a file; name a folder.")
    exported: set[str] = set()
    with contextlib.suppress(OnnxError):
        exported = {*(Path(name).parts[0] for name in folders.read(to).files), folders.MANIFEST_FILE}
    if others := sorted({path.name for path in to.iterdir()} - exported):
        raise OnnxError(
            f"--to {to} contains {others[0]}, which is not part of an ONNX export. Name a new or "
            "empty folder."
        )
