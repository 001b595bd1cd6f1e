"""Calls of a kernel by its address: numba compiles a kernel anew into each of its compiled callers, but not those.

A loop over the ranges of a shared kernel is written once, around `run`. Compiled, it runs on one thread and calls the
kernel by its address; interpreted, it gets the kernel itself and runs it on several threads
(`opttree.runtime.threads`).
"""

import zlib

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from opttree.runtime.threads import share


def run(kernel, n, cost, work):
    """``kernel(first, last, work)`` for 0, ..., n - 1, by `share`; compiled code calls the address of the kernel."""
    share(kernel, n, cost, work)


@overload(run)
def _compiled_run(kernel, n, cost, work):
    if not isinstance(kernel, types.UniTuple):
        return None
    known = fingerprint(work)

    def call(kernel, n, cost, work):
        if kernel[1] != known:
            raise RuntimeError("opttree's compiled kernels are of different versions: delete numba's cache of them")
        _call(kernel[0], (0, n, work))

    return call


def fingerprint(kind):
    """A number for a type: a caller from the cache may be older than the kernel that it calls."""
    return zlib.crc32(str(kind).encode())


@intrinsic
def _call(_context, address, arguments):
    """Call the compiled function at ``address``, which returns None, with the members of a tuple."""

    def generate(context, builder, signature, values):
        kinds = [types.unliteral(kind) for kind in signature.args[1].types]
        function = context.call_conv.get_function_type(types.none, kinds).as_pointer()
        members = cgutils.unpack_tuple(builder, values[1], len(kinds))
        pointer = builder.inttoptr(values[0], function)
        status, _none = context.call_conv.call_function(builder, pointer, types.none, kinds, members)
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return ir.Constant(ir.IntType(8).as_pointer(), None)

    return types.none(address, arguments), generate


_addresses: dict[tuple[object, object], tuple[int, int]] = {}


def address_of(kernel, maker, arguments, key):
    """Address of ``kernel``, compiled for ranges and the type of what the compiled ``maker(*arguments)`` returns; and
    the fingerprint of this type.

    ``key`` holds all on which types depend that arguments may differ in.
    """
    found = _addresses.get((kernel, key))
    if found is None:
        from numba import typeof

        kinds = tuple(typeof(argument) for argument in arguments)
        maker.compile(kinds)
        work = maker.overloads[kinds].signature.return_type
        signature = (types.int64, types.int64, work)
        kernel.compile(signature)
        compiled = kernel.overloads[signature]
        found = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name), fingerprint(work)
        _addresses[kernel, key] = found
    return found
