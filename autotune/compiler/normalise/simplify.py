"""Simplification of a payload module to the form that groups and families expect; the oracle uses the original text."""

from mlir import ir

from autotune.compiler.normalise.convolution.channels_last import use_channels_last
from autotune.compiler.normalise.convolution.conv_1d import make_convolutions_2d
from autotune.compiler.normalise.convolution.joined_windows import read_joined_windows
from autotune.compiler.normalise.convolution.phases import mark_phases
from autotune.compiler.normalise.convolution.planes import read_volumes
from autotune.compiler.normalise.convolution.pools import write_pools
from autotune.compiler.normalise.convolution.shared_pads import share_pads
from autotune.compiler.normalise.convolution.window_sums import write_windows_out
from autotune.compiler.normalise.gather.affine_indices import read_by_maps
from autotune.compiler.normalise.gather.indices import gather_before_broadcast, split_argmax
from autotune.compiler.normalise.gather.scattered import read_scattered_elements
from autotune.compiler.normalise.gather.whole_rows import read_rows_in_one
from autotune.compiler.normalise.shapes.dimensions import drop_unit_dimensions, read_in_place, write_results_in_shape
from autotune.compiler.normalise.shapes.factors import multiply_smaller_operands
from autotune.compiler.normalise.shapes.parts import begin_with_earlier, write_inside_borders, write_side_by_side
from autotune.compiler.normalise.shapes.products import drop_loops_of_one, reshape_after_elementwise, share_matrices
from autotune.compiler.normalise.shapes.reductions import join_reductions, write_loops_only
from autotune.compiler.normalise.shapes.slices import read_elements_of_wholes, read_in_steps
from autotune.compiler.normalise.starts import start_from_constants
from autotune.compiler.normalise.types.byte_products import sum_pairs_of_products
from autotune.compiler.normalise.types.narrow import narrow_floats, read_as_stored
from autotune.compiler.normalise.types.powers import multiply_powers

SIMPLIFY = (
    read_joined_windows,
    multiply_powers,
    narrow_floats,
    split_argmax,
    join_reductions,
    start_from_constants,
    gather_before_broadcast,
    read_elements_of_wholes,
    read_in_steps,
    sum_pairs_of_products,
    read_by_maps,
    read_rows_in_one,
    read_scattered_elements,
    read_volumes,
    make_convolutions_2d,
    begin_with_earlier,
    mark_phases,
    share_pads,
    use_channels_last,
    write_pools,
    write_windows_out,
    multiply_smaller_operands,
    share_matrices,
    drop_unit_dimensions,
    write_loops_only,
    read_in_place,
    read_as_stored,
    drop_loops_of_one,
    reshape_after_elementwise,
    write_side_by_side,
    write_inside_borders,
    write_results_in_shape,
)


def simplify(module: ir.Module) -> None:
    """Apply every rewrite to a payload module, in place.

    Raises:
        CompileError: A rewrite leaves a module that does not verify.
    """
    for rewrite in SIMPLIFY:
        rewrite(module)
