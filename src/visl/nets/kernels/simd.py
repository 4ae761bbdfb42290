"""The loops of the fused CPU kernel, on vectors that stay in registers.

Numba's own vectoriser must assume that arrays overlap, and gives up. So vectors are values here, and LLVM maps them to
what the processor has. A chunk is four vectors side by side: enough to hide the latency of the arithmetic.

The B * h numbers of a node, for one way, are its columns. A block of them is copied to rows of contiguous memory, one
row for each node, that stay in the nearest caches; there the weight of an edge multiplies whole chunks.

Vectors and loops stay in one file: Numba keeps compiled loops until their own file changes, and would not notice
a change of the vectors in another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numpy as np
from llvmlite import ir
from numba import extending, njit, types
from numba.core import cgutils


def _vector_bytes() -> int:
    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx") else 16


# Bytes.
VECTOR = _vector_bytes()
CHUNK = 4 * VECTOR  # what a receiver adds, its gradient and the sum over its senders: 12 registers
BLOCK = 2 * CHUNK  # 32 senders and their gradients fit the nearest cache

TILE = 32  # about as many senders of a receiver are taken in one pass, for the same reason


_intrinsic: Callable[[Callable], Callable] = extending.intrinsic  # its stub counts the context of typing as an argument


# --- Vectors -----------------------------------------------------------------------------------------------------


class Vector(types.Type):
    def __init__(self, element: Any, n_bytes: int) -> None:
        self.element, self.lanes = element, 8 * n_bytes // element.bitwidth
        super().__init__(name=f"Vector({element}, {self.lanes})")


@extending.register_model(Vector)
class _VectorModel(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        element = manager.lookup(vector.element).get_value_type()
        super().__init__(manager, vector, ir.VectorType(element, vector.lanes))


def _zeros(vector: ir.VectorType) -> ir.Constant:
    return ir.Constant(vector, [0.0] * vector.count)


def _integers(values: Iterable[int]) -> ir.Constant:
    values = list(values)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(values)), values)


def _splat(builder: ir.IRBuilder, scalar: Any, lanes: int) -> Any:
    undefined = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, undefined, _integers([0] * lanes))


def _call(builder: ir.IRBuilder, name: str, vector: ir.VectorType, arguments: list, result: Any) -> Any:
    """LLVM's function of that name for that type of vector."""
    name = f"{name}.v{vector.count}f{32 if isinstance(vector.element, ir.FloatType) else 64}"
    function = ir.FunctionType(result, [x.type for x in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), arguments)


def _multiply_add(builder: ir.IRBuilder, x: Any, y: Any, total: Any) -> Any:
    return _call(builder, "llvm.fma", x.type, [x, y, total], x.type)


def _positive(builder: ir.IRBuilder, x: Any) -> Any:
    """NaN counts, as in PyTorch's gradient of relu."""
    return builder.fcmp_unordered(">", x, _zeros(x.type))


def _pointer(context: Any, builder: ir.IRBuilder, array: Any, to: Any, value: Any, offset: Any) -> Any:
    """To the element at an offset in a contiguous array, whatever its dimensions."""
    data = context.make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [offset]), to.as_pointer())


def _align(array: Any) -> int:
    return array.dtype.bitwidth // 8


def _first_lanes(builder: ir.IRBuilder, n: Any, lanes: int) -> Any:
    return builder.icmp_signed("<", _integers(range(lanes)), _splat(builder, builder.trunc(n, ir.IntType(32)), lanes))


def _loader(n_bytes: int) -> Callable:
    def load(_: Any, array: Any, offset: Any) -> tuple:
        vector = Vector(array.dtype, n_bytes)

        def code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            pointer = _pointer(context, builder, array, context.get_value_type(vector), *arguments)
            return builder.load(pointer, align=_align(array))

        return vector(array, types.intp), code

    return load


load_vector = _intrinsic(_loader(VECTOR))
load_chunk = _intrinsic(_loader(CHUNK))


@_intrinsic
def zero_vector(_: Any, array: Any) -> tuple:
    vector = Vector(array.dtype, VECTOR)
    return vector(array), lambda context, builder, signature, arguments: _zeros(context.get_value_type(vector))


@_intrinsic
def load_first(_: Any, array: Any, offset: Any, n: Any) -> tuple:
    """A vector's first n lanes, the others 0; nothing behind them is read."""
    vector = Vector(array.dtype, VECTOR)

    def code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        result = context.get_value_type(vector)
        pointer = _pointer(context, builder, array, result, *arguments[:2])
        align = ir.Constant(ir.IntType(32), _align(array))
        first = _first_lanes(builder, arguments[2], result.count)
        return _call(builder, "llvm.masked.load", result, [pointer, align, first, _zeros(result)], result)

    return vector(array, types.intp, types.intp), code


@_intrinsic
def store(_: Any, array: Any, offset: Any, vector: Vector) -> tuple:
    def code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, array, arguments[2].type, *arguments[:2])
        builder.store(arguments[2], pointer, align=_align(array))
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), code


@_intrinsic
def store_first(_: Any, array: Any, offset: Any, vector: Vector, n: Any) -> tuple:
    def code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        value = arguments[2]
        pointer = _pointer(context, builder, array, value.type, *arguments[:2])
        align = ir.Constant(ir.IntType(32), _align(array))
        first = _first_lanes(builder, arguments[3], value.type.count)
        _call(builder, "llvm.masked.store", value.type, [value, pointer, align, first], ir.VoidType())
        return context.get_dummy_value()

    return types.void(array, types.intp, vector, types.intp), code


@_intrinsic
def add(_: Any, x: Vector, y: Vector) -> tuple:
    return x(x, y), lambda context, builder, signature, arguments: builder.fadd(*arguments)


@_intrinsic
def relu(_: Any, x: Vector) -> tuple:
    def code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        zeros = _zeros(arguments[0].type)
        return builder.select(builder.fcmp_ordered("<", arguments[0], zeros), zeros, arguments[0])  # NaN stays

    return x(x), code


@_intrinsic
def where_positive(_: Any, x: Vector, value: Vector) -> tuple:
    """value where x > 0, else 0."""

    def code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.select(_positive(builder, arguments[0]), arguments[1], _zeros(arguments[1].type))

    return value(x, value), code


@_intrinsic
def scaled_add(_: Any, scalar: types.Float, x: Vector, total: Vector) -> tuple:
    """total + scalar * x"""

    def code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        factor = _splat(builder, arguments[0], x.lanes)
        return _multiply_add(builder, factor, *arguments[1:])

    return total(x.element, x, total), code


@_intrinsic
def dot_add(_: Any, x: Vector, y: Vector, total: Vector) -> tuple:
    """total + the products of two chunks, summed over their vectors: still a vector."""

    def code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        result = arguments[2]
        for start in range(0, x.lanes, total.lanes):
            part = _integers(range(start, start + total.lanes))
            factors = [builder.shuffle_vector(chunk, chunk, part) for chunk in arguments[:2]]
            result = _multiply_add(builder, factors[0], factors[1], result)
        return result

    return total(x, y, total), code


@_intrinsic
def lane_sums(_: Any, array: Any, offset: Any) -> tuple:
    """The sums of as many consecutive vectors as a vector has lanes, as one vector."""
    vector = Vector(array.dtype, VECTOR)

    def code(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        kind, lanes = context.get_value_type(vector), vector.lanes
        first = _pointer(context, builder, array, kind, *arguments)
        pointers = (builder.gep(first, [ir.Constant(ir.IntType(32), row)]) for row in range(lanes))
        rows = [builder.load(pointer, align=_align(array)) for pointer in pointers]
        size = lanes  # of what is left of a row; each step halves it and puts two vectors' rows into one
        while size > 1:
            low = [start + lane for start in range(0, 2 * lanes, size) for lane in range(size // 2)]
            halves = [_integers(low), _integers(lane + size // 2 for lane in low)]
            pairs = zip(rows[::2], rows[1::2], strict=True)
            rows = [builder.fadd(*(builder.shuffle_vector(x, y, half) for half in halves)) for x, y in pairs]
            size //= 2
        return rows[0]

    return vector(array, types.intp), code


# --- Kernels -----------------------------------------------------------------------------------------------------


_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_inlined = njit(forceinline=True, **_OPTIONS)


def _compiled(function: Callable) -> Callable:
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # nowhere to keep the compiled code
        return njit(**_OPTIONS)(function)


@_compiled
def list_edges(edges: Any, index: Any, weight: Any, count: Any) -> int:
    """The senders that each receiver has in each tile, and how many there are in all.

    edges: (R, M, M); index, weight: (R, W, tiles, M, senders in a tile); count: (R, W, tiles, M)
    """
    R, W, tiles, M, tile = index.shape
    present = 0
    for r in range(R):
        for w in range(W):
            for t in range(tiles):
                for i in range(M):
                    n = 0
                    for k in range(t * tile, min(M, t * tile + tile)):
                        edge = edges[r, k, i] if w == 0 else edges[r, i, k]
                        index[r, w, t, i, n], weight[r, w, t, i, n] = k, edge
                        n += edge != 0  # an absent one is written over: a branch would be guessed wrong too often
                    count[r, w, t, i] = n
                    present += n
    return present


@_compiled
def spread_edges(index: Any, count: Any, partial: Any, edges: Any) -> None:
    """Adds what was found for the listed edges, (threads, *index.shape), to edges: (R, M, M)."""
    R, W, tiles, M, _ = index.shape
    for r in range(R):
        for w in range(W):
            for t in range(tiles):
                for i in range(M):
                    for j in range(count[r, w, t, i]):
                        k = index[r, w, t, i, j]
                        row, column = (k, i) if w == 0 else (i, k)
                        for thread in range(len(partial)):
                            edges[r, row, column] += partial[thread, r, w, t, i, j]


@_inlined
def _gather(source: Any, r: int, w: int, column: int, n: int, rows: Any, start: int, stride: int) -> None:
    """n columns of one way from source, (R, B, M, W, P, h), to P * M rows; the rest of the last chunk becomes 0.

    What is written behind a sample's numbers is written over by those of the next one.
    """
    B, M, W, P, h = source.shape[1:]
    lanes, chunk = VECTOR // rows.itemsize, CHUNK // rows.itemsize
    done = 0
    while done < n:
        b, x = (column + done) // h, (column + done) % h
        length = min(h - x, n - done)
        whole = length - length % lanes
        for p in range(P):
            here, to = (((r * B + b) * M * W + w) * P + p) * h + x, start + p * M * stride + done
            for _ in range(M):
                for part in range(0, whole, lanes):
                    store(rows, to + part, load_vector(source, here + part))
                if whole < length:
                    store(rows, to + whole, load_first(source, here + whole, length - whole))
                here, to = here + W * P * h, to + stride
        done += length
    for rest in range(n, n + -n % chunk, lanes):
        for row in range(P * M):
            store(rows, start + row * stride + rest, zero_vector(rows))


@_inlined
def _scatter(rows: Any, start: int, stride: int, target: Any, r: int, w: int, column: int, n: int) -> None:
    """The reverse of `_gather`."""
    B, M, W, P, h = target.shape[1:]
    lanes = VECTOR // rows.itemsize
    done = 0
    while done < n:
        b, x = (column + done) // h, (column + done) % h
        length = min(h - x, n - done)
        whole = length - length % lanes
        for p in range(P):
            here, to = start + p * M * stride + done, (((r * B + b) * M * W + w) * P + p) * h + x
            for _ in range(M):
                for part in range(0, whole, lanes):
                    store(target, to + part, load_vector(rows, here + part))
                if whole < length:
                    store_first(target, to + whole, load_vector(rows, here + whole), length - whole)
                here, to = here + stride, to + W * P * h
        done += length


@_inlined
def _empty_rows(n: int, like: Any) -> Any:
    """Memory for n rows, where the first begins in it, on the boundary of a vector, and the step to the next."""
    stride = (BLOCK + VECTOR) // like.itemsize  # `_gather` may write a vector behind the block
    rows = np.empty(n * stride + VECTOR, like.dtype)
    return rows, (-rows.ctypes.data % VECTOR) // rows.itemsize, stride


@_inlined
def _clear(rows: Any, start: int, end: int) -> None:
    for at in range(start, end, VECTOR // rows.itemsize):
        store(rows, at, zero_vector(rows))


@_inlined
def _block(unit: int, end: int, shape: tuple, itemsize: int) -> Any:
    """Which r the unit belongs to, and which columns it and the next units up to end make a block with: start, number.

    Units count all R * chunks of columns.
    """
    _, B, _, _, _, h = shape
    chunk = CHUNK // itemsize
    chunks = -(-B * h // chunk)
    column = unit % chunks * chunk
    return unit // chunks, column, min(B * h - column, BLOCK // itemsize, (end - unit) * chunk)


@_compiled
def forward(unit: int, end: int, nodes: Any, index: Any, weight: Any, count: Any, total: Any) -> None:
    """total: (R, B, M, W, 1, h), for the units from the first given to the end; index and so on: see `list_edges`."""
    M, W = nodes.shape[2:4]
    chunk = CHUNK // nodes.itemsize
    rows, sender, stride = _empty_rows(3 * M, nodes)
    receiver, received = sender + M * stride, sender + 2 * M * stride
    while unit < end:
        r, column, n = _block(unit, end, nodes.shape, nodes.itemsize)
        for w in range(W):
            _gather(nodes, r, w, column, n, rows, sender, stride)
            _clear(rows, received, received + M * stride)
            for t in range(index.shape[2]):
                for i in range(M):
                    senders, weights = index[r, w, t, i], weight[r, w, t, i]
                    for x in range(0, n, chunk):
                        to = i * stride + x
                        c, out = load_chunk(rows, receiver + to), load_chunk(rows, received + to)
                        for j in range(count[r, w, t, i]):
                            pre = add(load_chunk(rows, sender + senders[j] * stride + x), c)
                            out = scaled_add(weights[j], relu(pre), out)
                        store(rows, received + to, out)
            _scatter(rows, received, stride, total, r, w, column, n)
        unit += -(-n // chunk)


@_compiled
def backward(
    unit: int, end: int, nodes: Any, index: Any, weight: Any, count: Any, grad: Any, grad_nodes: Any, grad_weight: Any
) -> None:
    """grad: (R, B, M, W, 1, h) -> grad_nodes: as nodes; grad_weight: as weight, added to; empty is not wanted."""
    M, W = nodes.shape[2:4]
    tile, chunk = index.shape[4], CHUNK // nodes.itemsize
    rows, sender, stride = _empty_rows(5 * M + tile, nodes)
    starts = (sender, sender + M * stride, sender + 2 * M * stride, sender + 3 * M * stride, sender + 4 * M * stride)
    sums = sender + 5 * M * stride
    of_nodes, of_edges = grad_nodes.size > 0, grad_weight.size > 0
    while unit < end:
        r, column, n = _block(unit, end, nodes.shape, nodes.itemsize)
        for w in range(W):
            _gather(nodes, r, w, column, n, rows, sender, stride)
            _gather(grad, r, w, column, n, rows, starts[2], stride)
            _clear(rows, starts[3], sums)
            for t in range(index.shape[2]):
                for i in range(M):
                    edges = index[r, w, t, i], weight[r, w, t, i], count[r, w, t, i]
                    _return_to_senders(rows, starts, sums, stride, n, i, edges, of_nodes, of_edges)
                    if of_edges:
                        at = (((r * W + w) * index.shape[2] + t) * M + i) * tile
                        _add_sums(rows, sums, count[r, w, t, i], grad_weight, at)
            if of_nodes:
                _scatter(rows, starts[3], stride, grad_nodes, r, w, column, n)
        unit += -(-n // chunk)


@_inlined
def _return_to_senders(
    rows: Any, starts: tuple, sums: int, stride: int, n: int, i: int, edges: tuple, of_nodes: bool, of_edges: bool
) -> None:
    """The gradient of receiver i to its senders and, as a vector of partial sums for each, to their edges.

    starts: of the rows of senders, receivers, gradients received, gradients of senders and of receivers.
    """
    sender, receiver, received, grad_sender, grad_receiver = starts
    senders, weights, n_senders = edges
    lanes = VECTOR // rows.itemsize
    for x in range(0, n, CHUNK // rows.itemsize):
        at = i * stride + x
        c, g, grad_c = (
            load_chunk(rows, receiver + at),
            load_chunk(rows, received + at),
            load_chunk(rows, grad_receiver + at),
        )
        for j in range(n_senders):
            k, edge = senders[j] * stride + x, weights[j]
            pre = add(load_chunk(rows, sender + k), c)
            active = where_positive(pre, g)
            if of_edges:
                before = load_vector(rows, sums + j * lanes) if x > 0 else zero_vector(rows)
                store(rows, sums + j * lanes, dot_add(active, pre, before))
            if of_nodes:
                store(rows, grad_sender + k, scaled_add(edge, active, load_chunk(rows, grad_sender + k)))
                grad_c = scaled_add(edge, active, grad_c)
        store(rows, grad_receiver + at, grad_c)


@_inlined
def _add_sums(rows: Any, sums: int, n: int, grad_weight: Any, at: int) -> None:
    """The partial sums of n edges, each summed, to their gradients; those behind the n are not used."""
    lanes = VECTOR // rows.itemsize
    for j in range(0, n, lanes):
        found = lane_sums(rows, sums + j * lanes)
        store(grad_weight, at + j, add(load_vector(grad_weight, at + j), found))
