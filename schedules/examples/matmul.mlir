// A matmul, from tiles that fit a cache to tiles that fit the registers.
//
//   autotune tune matmul,m=256,n=256,k=256 --schedule schedules/examples/matmul.mlir
//
// C[m, n] += A[m, k] * B[k, n] is three loops. Tiling puts loops around it until what is left is small enough to keep
// all of it in registers; that is then written as vectors. Which sizes are best, the search finds.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.readonly}) {
    %matmul = transform.structured.match ops{["linalg.matmul"]} in %module : (!transform.any_op) -> !transform.any_op

    // A block of B, tile_k rows of tile_n columns, is used by all rows of A before the next one: it should fit a cache.
    %tile_n = transform.tune.knob<"tile_n"> = 128 from options = [64, 128, 256] -> !transform.param<i64>
    %tile_k = transform.tune.knob<"tile_k"> = 256 from options = [64, 128, 256] -> !transform.param<i64>
    %block, %blocks:2 = transform.structured.tile_using_for %matmul tile_sizes [0, %tile_n, %tile_k]
      : (!transform.any_op, !transform.param<i64>, !transform.param<i64>)
      -> (!transform.any_op, !transform.any_op, !transform.any_op)

    // A tile of C, some rows of some vectors, stays in registers while k runs, beside a row of B and an element of A.
    %rows = transform.tune.knob<"rows"> = 8 from options = [2, 4, 8] -> !transform.param<i64>
    %vectors = transform.tune.knob<"vectors"> = 1 from options = [1, 2, 4] -> !transform.param<i64>
    %columns = transform.smt.constrain_params(%rows, %vectors)
      : (!transform.param<i64>, !transform.param<i64>) -> (!transform.param<i64>) {
    ^bb0(%r: !smt.int, %v: !smt.int):
      %registers = smt.declare_fun "autotune.vector_registers" : !smt.int
      %lanes = smt.declare_fun "autotune.lanes" : !smt.int
      %one = smt.int.constant 1
      %accumulators = smt.int.mul %r, %v
      %used = smt.int.add %accumulators, %v, %one
      %fits = smt.int.cmp le %used, %registers
      smt.assert %fits
      %c = smt.int.mul %v, %lanes
      smt.yield %c : !smt.int
    }
    %tile, %tiles:2 = transform.structured.tile_using_for %block tile_sizes [%rows, %columns, 0]
      : (!transform.any_op, !transform.param<i64>, !transform.param<i64>)
      -> (!transform.any_op, !transform.any_op, !transform.any_op)

    // One step of k at a time. The mark says that the loop only adds up, so that the tile of C may stay where it is.
    %step, %k = transform.structured.tile_using_for %tile tile_sizes [0, 0, 1]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %k "autotune.sums" : !transform.any_op
    transform.structured.vectorize %step : !transform.any_op
    transform.yield
  }
}
