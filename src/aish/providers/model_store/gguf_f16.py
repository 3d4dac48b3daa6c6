"""Rewrites a quantised GGUF file with F16 weights. Needs `gguf` and `numpy`, and is imported only where it is used.

llama.cpp quantises activations along with quantised weights, which ruins the answers of a model as small as
SmolLM2-135M. The same weights as F16 answer well, at a tenth less speed. The result depends on the input only.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

_FILE_TYPE_MOSTLY_F16 = 1
_ROWS_AT_ONCE = 4096  # of the widest tensors about 10 MB as float32


def convert_to_f16(source: Path, target: Path, report: Callable[[int, int], None]) -> None:
    """`report` gets the bytes of `source` done so far and in total. Blocks for seconds: call it in a thread."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, arch=_architecture(reader))
    _copy_metadata(reader, writer)
    for tensor in reader.tensors:
        dtype = np.dtype(np.float16 if _becomes_f16(tensor) else np.float32)
        writer.add_tensor_info(tensor.name, _shape(tensor), dtype, int(tensor.n_elements) * dtype.itemsize)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        _write_tensors(reader, writer, report)
    finally:
        writer.close()


def _architecture(reader: gguf.GGUFReader) -> str:
    field = reader.fields.get(gguf.Keys.General.ARCHITECTURE)
    if field is None:
        raise ValueError("the file does not name its architecture")
    return str(field.contents())


def _copy_metadata(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == gguf.Keys.General.ARCHITECTURE:
            continue  # the writer makes these itself
        kind = field.types[0]
        sub_kind = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        value = _FILE_TYPE_MOSTLY_F16 if field.name == gguf.Keys.General.FILE_TYPE else field.contents()
        writer.add_key_value(field.name, value, kind, sub_type=sub_kind)


def _write_tensors(reader: gguf.GGUFReader, writer: gguf.GGUFWriter, report: Callable[[int, int], None]) -> None:
    total = sum(int(tensor.n_bytes) for tensor in reader.tensors)
    done = 0
    for tensor in reader.tensors:
        writer.write_tensor_data(_convert(tensor))
        done += int(tensor.n_bytes)
        report(done, total)


def _becomes_f16(tensor: gguf.ReaderTensor) -> bool:
    return len(tensor.shape) > 1  # norms and biases are one-dimensional, tiny, and needed exactly


def _shape(tensor: gguf.ReaderTensor) -> tuple[int, ...]:
    return tuple(int(size) for size in reversed(tensor.shape))  # the file counts from the innermost


def _convert(tensor: gguf.ReaderTensor) -> npt.NDArray[np.generic]:
    if not _becomes_f16(tensor):
        return np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
    result = np.empty(_shape(tensor), dtype=np.float16)
    for first in range(0, len(result), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        result[rows] = gguf.quants.dequantize(tensor.data[rows], tensor.tensor_type)
    return result
