// Two ways to vectorize a matmul, as alternatives: each has knobs that only count where it is taken.
//
//   autotune tune matmul,m=128,n=128,k=128 --schedule schedules/examples/two_vectorizations.mlir
//   autotune show matmul,m=128,n=128,k=128 --schedule schedules/examples/two_vectorizations.mlir --stage space
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.readonly}) {
    %matmul = transform.structured.match ops{["linalg.matmul"]} in %module : (!transform.any_op) -> !transform.any_op
    %rows = transform.tune.knob<"rows"> = 4 from options = [2, 4, 8] -> !transform.param<i64>

    transform.tune.alternatives<"vectors_along"> {
      // Along n: a row of the tile is a vector, each step of k adds an element of A times a row of B to it.
      %columns = transform.tune.knob<"columns"> = 32 from options = [16, 32, 64] -> !transform.param<i64>
      %tile, %tiles:2 = transform.structured.tile_using_for %matmul tile_sizes [%rows, %columns, 0]
        : (!transform.any_op, !transform.param<i64>, !transform.param<i64>)
        -> (!transform.any_op, !transform.any_op, !transform.any_op)
      %step, %k = transform.structured.tile_using_for %tile tile_sizes [0, 0, 1]
        : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
      transform.annotate %k "autotune.sums" : !transform.any_op
      transform.structured.vectorize %step : !transform.any_op

      // An attribute that takes no param is a knob all the same: the loop over k, unrolled.
      %unroll = transform.tune.knob<"unroll"> = 1 from options = [1, 2, 4] -> !transform.param<i64>
      transform.loop.unroll %k {factor = 1, autotune.sets = {factor = "unroll"}} : !transform.any_op
      transform.yield
    }, {
      // Along k: each element of the tile is a sum over a vector of products. B is read against its order.
      %depth = transform.tune.knob<"depth"> = 16 from options = [8, 16, 32] -> !transform.param<i64>
      %tile, %tiles:3 = transform.structured.tile_using_for %matmul tile_sizes [%rows, 4, %depth]
        : (!transform.any_op, !transform.param<i64>, !transform.param<i64>)
        -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
      transform.structured.vectorize %tile : !transform.any_op
      %function = transform.structured.match ops{["func.func"]} in %module : (!transform.any_op) -> !transform.any_op
      transform.apply_patterns to %function {
        transform.apply_patterns.vector.lower_multi_reduction lowering_strategy = "innerreduction"
      } : !transform.any_op
      transform.yield
    }
    transform.yield
  }
}
