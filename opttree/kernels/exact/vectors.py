"""Additions of four numbers at once, which numba's compiler does not make of four additions."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

WIDTH = 4


@intrinsic
def add_four(_context, target, at, source, start, sign):
    """``target.flat[at : at + 4] += sign * source.flat[start : start + 4]`` for contiguous float64 arrays."""

    def generate(context, builder, signature, values):
        vector = ir.VectorType(ir.DoubleType(), WIDTH)

        def place(kind, array, offset):
            data = context.make_array(kind)(context, builder, array).data
            return builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())

        kinds = signature.args
        there, here = place(kinds[0], values[0], values[1]), place(kinds[2], values[2], values[3])
        old, new = builder.load(there, align=8), builder.load(here, align=8)
        lane = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), values[4], ir.Constant(ir.IntType(32), 0))
        signs = builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), lane)
        builder.store(builder.fadd(old, builder.fmul(signs, new)), there, align=8)
        return context.get_dummy_value()

    return types.none(target, types.int64, source, types.int64, types.float64), generate
