// Three ways to compute a tile of a matmul: three knobs, a range, a law and three alternatives. `own_schedules.py` measures
// every config of it, and how soon a search finds the best.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.readonly}) {
    %matmul = transform.structured.match ops{["linalg.matmul"]} in %module : (!transform.any_op) -> !transform.any_op
    %depth = transform.tune.knob<"depth"> options = [64, 128, 256] -> !transform.param<i64>
    %rows = transform.tune.knob<"rows"> options = [2, 4, 8] -> !transform.param<i64>
    %columns = transform.tune.knob<"columns"> options = {lower_bound = 16, upper_bound = 64, divisible_by = 16,
      divides = 256} -> !transform.param<i64>
    transform.smt.constrain_params(%rows, %columns) : (!transform.param<i64>, !transform.param<i64>) -> () {
    ^bb0(%r: !smt.int, %c: !smt.int):
      %area = smt.int.mul %r, %c
      %most = smt.int.constant 256
      %fits = smt.int.cmp le %area, %most
      smt.assert %fits
    }
    %block, %blocks = transform.structured.tile_using_for %matmul tile_sizes [0, 0, %depth]
      : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
    %tile, %tiles:2 = transform.structured.tile_using_for %block tile_sizes [%rows, %columns, 0]
      : (!transform.any_op, !transform.param<i64>, !transform.param<i64>)
      -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.tune.alternatives<"way"> {
      // An outer product a step of k, and some steps at a time.
      %unroll = transform.tune.knob<"unroll"> options = [1, 2, 4] -> !transform.param<i64>
      %step, %k = transform.structured.tile_using_for %tile tile_sizes [0, 0, 1]
        : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
      transform.annotate %k "autotune.sums" : !transform.any_op
      transform.structured.vectorize %step : !transform.any_op
      transform.loop.unroll %k {factor = 1, autotune.sets = {factor = "unroll"}} : !transform.any_op
      transform.yield
    }, {
      // Products of four columns of A and four rows of B.
      %step, %k = transform.structured.tile_using_for %tile tile_sizes [0, 0, 4]
        : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
      transform.annotate %k "autotune.sums" : !transform.any_op
      transform.structured.vectorize %step : !transform.any_op
      transform.yield
    }, {
      // Loops over scalars, as LLVM finds them.
      transform.yield
    }
    transform.yield
  }
}
