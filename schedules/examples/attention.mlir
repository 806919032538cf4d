// Attention, fused: softmax(Q K^T) V for a few rows at a time, so that the scores never leave the cache.
//
//   autotune tune attention,seq=64,d=32 --schedule schedules/examples/attention.mlir
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.readonly}) {
    // The last op divides by the sums of the softmax. Fused with all it reads, it computes a block of rows of one head.
    %generics = transform.structured.match ops{["linalg.generic"]} in %module : (!transform.any_op) -> !transform.any_op
    %others:4, %last = transform.split_handle %generics : (!transform.any_op)
      -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    %rows = transform.tune.knob<"rows"> = 16 from options = [8, 16, 32] -> !transform.param<i64>
    %fused, %heads, %blocks = transform.structured.fuse %last tile_sizes [1, %rows]
      : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op, !transform.any_op)

    // What goes row by row: one row at a time, whole.
    %rowwise = transform.structured.match ops{["linalg.generic"]} in %module : (!transform.any_op) -> !transform.any_op
    %row, %each = transform.structured.tile_using_for %rowwise tile_sizes [0, 1]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %row : !transform.any_op

    // Both products: tiles that fit registers, then one step of the sum at a time.
    %products = transform.structured.match ops{["linalg.batch_matmul"]} in %module
      : (!transform.any_op) -> !transform.any_op
    %register_rows = transform.tune.knob<"register_rows"> = 4 from options = [2, 4, 8] -> !transform.param<i64>
    %columns = transform.tune.knob<"columns"> = 16 from options = [16, 32] -> !transform.param<i64>
    transform.foreach %products : !transform.any_op {
    ^bb0(%product: !transform.any_op):
      %tile, %tiles:2 = transform.structured.tile_using_for %product tile_sizes [0, %register_rows, %columns]
        : (!transform.any_op, !transform.param<i64>, !transform.param<i64>)
        -> (!transform.any_op, !transform.any_op, !transform.any_op)
      %step, %k = transform.structured.tile_using_for %tile tile_sizes [0, 0, 0, 1]
        : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
      transform.annotate %k "autotune.sums" : !transform.any_op
      transform.structured.vectorize %step : !transform.any_op
    }
    %fills = transform.structured.match ops{["linalg.fill"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.structured.vectorize %fills : !transform.any_op
    transform.yield
  }
}
