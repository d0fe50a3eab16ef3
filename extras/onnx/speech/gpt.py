"""The ONNX GPT with its key-value cache: ids to logits and latents.

We store the keys and values, in memory that grows in blocks. The graph reads them in place and
returns only those of the new positions. Copying all of them at each step would take as long as
reading the weights.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from extras.onnx import folder as folders
from xtts.inference.alignment.guard import attention
from xtts.model.shapes import NUM_LATENTS, GPTShape

if TYPE_CHECKING:
    from extras.common.onnxruntime.types import Session

Array = np.ndarray
# The block size in places. A step reads all places, used or not.
BLOCK_PLACES = 64
_UNUSED_BIAS = np.float32(-1e30)


class Past:
    """The keys and values of one row's past positions.

    keys: [layers, 1, heads, head_width, places]; values: [layers, 1, heads, places, head_width].
    """

    def __init__(self, shape: GPTShape, places: int = BLOCK_PLACES) -> None:
        self._head_width = shape.width // shape.heads
        self._layers, self._heads = shape.layers, shape.heads
        self.length = 0
        self._queries: list[Array] = []
        self._allocate(places)

    def attention(self, heads: Sequence[tuple[int, int]], stop: int) -> dict[tuple[int, int], Array]:
        """The attention of each of these heads (layer, number) on the positions from the text's
        START to before `stop`: `[codes, positions]`."""
        queries, keys = np.stack(self._queries), self._keys[:, 0, :, :, NUM_LATENTS:stop]
        return {
            (layer, head): attention(queries[:, layer, 0, head, None], keys[layer, head].swapaxes(0, 1)[None])
            for layer, head in heads
        }

    def feed(self) -> dict[str, Array]:
        """The inputs of the graph for this past."""
        feed = {"bias": self._bias}
        for layer in range(self._layers):
            feed[f"past_keys_{layer}"] = self._keys[layer]
            feed[f"past_values_{layer}"] = self._values[layer]
        return feed

    def add(self, keys: Array, values: Array, queries: Array | None = None) -> None:
        """Appends the graph's new keys [.., head_width, time] and values [.., time, head_width],
        and the queries [layers, 1, heads, head_width] of the last position if it returns them."""
        if queries is not None:
            self._queries.append(queries)
        end = self.length + keys.shape[-1]
        if end > self._bias.shape[1]:
            self._grow(end)
        self._keys[..., self.length : end] = keys
        self._values[..., self.length : end, :] = values
        self._bias[:, self.length : end] = 0.0
        self.length = end

    def _allocate(self, places: int) -> None:
        lead = (self._layers, 1, self._heads)
        self._keys = np.zeros((*lead, self._head_width, places), np.float32)
        self._values = np.zeros((*lead, places, self._head_width), np.float32)
        self._bias = np.full((1, places), _UNUSED_BIAS, np.float32)

    def _grow(self, needed: int) -> None:
        keys, values, length = self._keys, self._values, self.length
        self._allocate(-(-needed // BLOCK_PLACES) * BLOCK_PLACES)
        self._keys[..., :length] = keys[..., :length]
        self._values[..., :length, :] = values[..., :length, :]
        self._bias[:, :length] = 0.0


class OnnxGPT:
    """The session of the step graph, and the memory-mapped embedding tables."""

    def __init__(self, session: "Session", folder: Path, shape: GPTShape) -> None:
        self.shape = shape
        self._session = session
        # Exports of earlier versions lack this output and speak without alignment.
        self.tells_queries = any(output.name == "queries" for output in session.get_outputs())
        tables = np.load(folder / folders.EMBEDDINGS_FILE, mmap_mode="r")
        counts = (shape.text_ids, shape.text_positions, shape.audio_ids, shape.audio_positions)
        if tables.shape != (sum(counts), shape.width):
            raise folders.OnnxError(
                f"{folder / folders.EMBEDDINGS_FILE} is {list(tables.shape)}, but config.json requires "
                f"{[sum(counts), shape.width]}. Export the voice again."
            )
        ends = np.cumsum(counts)[:-1]
        self._text, self._text_positions, self._audio, self._audio_positions = np.split(tables, ends)

    def begin(self, latents: Array, ids: Sequence[int]) -> tuple[Past, Array, Array]:
        """Prefills conditioning latents `[1, 32, width]`, text ids and START. Returns the past, and
        the latent `[width]` and the logits `[audio_ids]` of the first code."""
        shape = self.shape
        text = [shape.text_start, *ids, shape.text_stop]
        embedded = np.concatenate(
            (
                latents[0].astype(np.float32),
                self._text[text] + self._text_positions[: len(text)],
                self._audio_row(shape.audio_start, 0),
            )
        )
        past = Past(shape)
        return past, *self._run(embedded[None], past)

    def step(self, code: int, position: int, past: Past) -> tuple[Array, Array]:
        """Adds a code at an audio position -> (latent `[width]`, logits `[audio_ids]`)."""
        return self._run(self._audio_row(code, position)[None], past)

    def _audio_row(self, code: int, position: int) -> Array:
        row: Array = self._audio[code : code + 1] + self._audio_positions[position : position + 1]
        return row

    def _run(self, embedded: Array, past: Past) -> tuple[Array, Array]:
        feed = {"embedded": np.ascontiguousarray(embedded), **past.feed()}
        latent, logits, *new_entries = self._session.run(None, feed)
        past.add(*new_entries)
        return latent[0], logits[0]
