"""What is used of ONNX Runtime's classes, for annotations: the package is imported when it is needed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np


class SessionValue(Protocol):
    """An input or output. shape: a size, or the name of a free one, or None."""

    name: str
    shape: Sequence[int | str | None]


class Session(Protocol):
    """An `onnxruntime.InferenceSession`."""

    def get_providers(self) -> list[str]: ...

    def get_inputs(self) -> Sequence[SessionValue]: ...

    def get_outputs(self) -> Sequence[SessionValue]: ...

    def run(
        self, outputs: Sequence[str] | None, inputs: "Mapping[str, np.ndarray]"
    ) -> "list[np.ndarray]": ...

    def end_profiling(self) -> str: ...


class SessionOptions(Protocol):
    """An `onnxruntime.SessionOptions`."""

    intra_op_num_threads: int
    inter_op_num_threads: int
    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    graph_optimization_level: object
    log_severity_level: int
    enable_profiling: bool
    profile_file_prefix: str

    def add_session_config_entry(self, key: str, value: str) -> None: ...
