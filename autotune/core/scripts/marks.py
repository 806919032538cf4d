"""Marks: attributes by which schedules tell our rewrites what may be done; a script is right without them."""

KNOBS = "autotune.knobs"  # on the sequence of a task: its config
SETS = "autotune.sets"  # on any op: its attributes that a knob gives the value of, by the knob's name
FOREIGN = "autotune.foreign"  # on sequences of a user's own script: handles there may be empty
TAG = "autotune.task"  # on a task's op; its root, where there are several
WEIGHT_OF = "autotune.weight_of"  # on a contraction whose B is a weight: the task that says how it is stored
KERNEL = "autotune.kernel"  # on an op that stands for a call of code that others made: the tag of its task
SUMS = "autotune.sums"  # on innermost loops, whose accumulators are to live in registers

# On loops of a causal group, whose script is right as it stands: the loop over blocks of rows, with the number of rows
# after which the mask begins again, if it does; and inside it loops that start at the first column and may stop at the
# last one that a row of the block can see, with the columns of a step, if several; or ops that become such loops.
ROW_BLOCKS = "autotune.row_blocks"
HIDDEN = "autotune.hidden"

# On the fill of a contraction's C, with the number of loops over k that come first for a part of C, and on those loops.
ZEROS = "autotune.zeros"
FROM_ZERO = "autotune.from_zero"

# On loops of a contraction whose B lies in panels: where the next block of B may be fetched while this one is used, and
# the loops that copy B if the call makes the panels.
PREFETCHING, COPIES = "autotune.prefetching", "autotune.copies"
BLOCKS_OF_N, BLOCKS_OF_K, STRIPS_OF_M = "autotune.blocks_of_n", "autotune.blocks_of_k", "autotune.strips_of_m"
OPTIONAL = "autotune.optional"  # on ops of a script, whose handles may be empty though they are used

# On the loop over blocks of rows of a group: where the next block of what it reads may be fetched; and what it writes.
NEXT_ROWS, WRITTEN_ROWS = "autotune.next_rows", "autotune.written_rows"

# On a parallel loop over pieces of columns, or of rows: how many of them a piece has.
PIECES_OF_N, PIECES_OF_M = "autotune.pieces_of_n", "autotune.pieces_of_m"

# On a script: tasks that become loops over blocks before it is applied. On what is inside of those: which part it is.
ONLINE, PART = "autotune.online", "autotune.part"
PANEL = "autotune.panel"  # on a sequence over one op: columns of the panels that its constant B is stored in beforehand
ROWS, COLUMNS, FACTOR, ROW_TOTALS, TOTALS, MEMBER = "rows", "columns", "factor", "row_totals", "totals", "member_"
NARROW = "autotune.narrow"  # on ops that stand for products of rounded operands: the precision
WORDS_OF_B = "autotune.words_of_b"  # on those that stand for the packing of B: its orientation, (k, n) or (n, k)
# On views of a stored weight, 16 rows of 16 words in one panel; on addresses of tiles, and products that are emulated.
TILE = "autotune.tile"
BY_TILES = "autotune.by_tiles"  # on ops that code of ours multiplies by tiles of a matrix unit
PRECISION = "autotune.precision"  # on a script: tasks whose products are so, and their precision
LIBM = "autotune.libm"  # on functions that shall call libm, not be polynomials
MASKED = "autotune.masked_ends"  # on functions: vectors of lengths that are no powers of two are masked
ROW_COPY = "autotune.row_copy"  # on ops of one row, which is copied as a whole from one offset
STENCIL = "autotune.stencil"  # on tiles of element-wise ops that read neighbours: elements of a vector
