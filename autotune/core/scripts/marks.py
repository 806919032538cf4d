"""Marks: discardable attributes by which schedules permit rewrites; scripts are correct without them."""

KNOBS = "autotune.knobs"  # on the sequence of a task: its config
SETS = "autotune.sets"  # on any op: its attributes whose values are those of knobs, by the knob's name
FOREIGN = "autotune.foreign"  # on sequences of a user script: handles may be empty
TAG = "autotune.task"  # on a task's op; on the root of a fusion group
WEIGHT_OF = "autotune.weight_of"  # on a contraction whose B is a weight: the task that determines its layout
KERNEL = "autotune.kernel"  # on an op that stands for the call of an external kernel: the tag of its task
SUMS = "autotune.sums"  # on innermost reduction loops, whose accumulators are kept in registers

# On loops of a causal group: the loop over blocks of rows, with the period of rows after which the mask repeats, if it
# does; and inside it loops that start at the first column and may stop at the last one that is visible to a row of the
# block, with the columns of an iteration, if several; or ops that are lowered to such loops.
ROW_BLOCKS = "autotune.row_blocks"
HIDDEN = "autotune.hidden"

# On the fill of a contraction's C, with the number of k loops that are the first to write a part of C, and on those
# loops.
ZEROS = "autotune.zeros"
FROM_ZERO = "autotune.from_zero"

# On loops of a contraction whose B is packed into panels: where the next block of B may be prefetched, and the loops
# that copy B if the panels are packed in the call.
PREFETCHING, COPIES = "autotune.prefetching", "autotune.copies"
BLOCKS_OF_N, BLOCKS_OF_K, STRIPS_OF_M = "autotune.blocks_of_n", "autotune.blocks_of_k", "autotune.strips_of_m"
OPTIONAL = "autotune.optional"  # on ops of a script, whose handles may be empty though they are used

# On the loop over blocks of rows of a group: where the next block of its inputs may be prefetched; and its outputs.
NEXT_ROWS, WRITTEN_ROWS = "autotune.next_rows", "autotune.written_rows"

# On a parallel loop over tiles of columns, or of rows: the number of columns or rows of a tile.
PIECES_OF_N, PIECES_OF_M = "autotune.pieces_of_n", "autotune.pieces_of_m"

# On a script: tasks that are rewritten to loops over blocks before it is applied. On ops inside of those: their part.
ONLINE, PART = "autotune.online", "autotune.part"
PANEL = "autotune.panel"  # on a sequence over one op: columns of the panels that its constant B is packed into
ROWS, COLUMNS, FACTOR, ROW_TOTALS, TOTALS, MEMBER = "rows", "columns", "factor", "row_totals", "totals", "member_"
NARROW = "autotune.narrow"  # on ops that stand for products of rounded operands: the precision
WORDS_OF_B = "autotune.words_of_b"  # on ops that stand for the packing of B: its orientation, (k, n) or (n, k)
# On views of a stored weight, 16 rows of 16 words in one panel; on addresses of tiles, and products that are emulated.
TILE = "autotune.tile"
BY_TILES = "autotune.by_tiles"  # on ops that are computed with tiles of a matrix unit
PRECISION = "autotune.precision"  # on a script: tasks whose operands are rounded, with their precision
LIBM = "autotune.libm"  # on functions that call libm instead of polynomial approximations
MASKED = "autotune.masked_ends"  # on functions: vectors whose lengths are no powers of two are masked
ROW_COPY = "autotune.row_copy"  # on ops of one row, which is copied as a whole from one offset
STENCIL = "autotune.stencil"  # on tiles of element-wise ops that read neighbours: elements of a vector
