// A matmul and what reads it, in one loop: a bias and a ReLU are computed while a tile of the sums is still at hand.
//
//   autotune tune schedules/examples/fuse_a_consumer.mlir
//
// The file holds payload and schedule, as upstream's examples do.
#row = affine_map<(i, j) -> (j)>
#all = affine_map<(i, j) -> (i, j)>
module attributes {transform.with_named_sequence} {
  func.func @layer(%x: memref<128x256xf32>, %w: memref<256x192xf32>, %b: memref<192xf32>, %y: memref<128x192xf32>) {
    %X = bufferization.to_tensor %x restrict : memref<128x256xf32> to tensor<128x256xf32>
    %W = bufferization.to_tensor %w restrict : memref<256x192xf32> to tensor<256x192xf32>
    %B = bufferization.to_tensor %b restrict : memref<192xf32> to tensor<192xf32>
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<128x192xf32>
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<128x192xf32>) -> tensor<128x192xf32>
    %sum = linalg.matmul ins(%X, %W : tensor<128x256xf32>, tensor<256x192xf32>)
      outs(%init : tensor<128x192xf32>) -> tensor<128x192xf32>
    %relu = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%sum, %B : tensor<128x192xf32>, tensor<192xf32>) outs(%empty : tensor<128x192xf32>) {
    ^bb0(%s: f32, %bias: f32, %out: f32):
      %biased = arith.addf %s, %bias : f32
      %most = arith.maximumf %biased, %zero : f32
      linalg.yield %most : f32
    } -> tensor<128x192xf32>
    bufferization.materialize_in_destination %relu in restrict writable %y
      : (tensor<128x192xf32>, memref<128x192xf32>) -> ()
    return
  }

  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.readonly}) {
    // Tile the consumer; fusion then computes of its producers what a tile needs. Sizes may be params, order too.
    %relu = transform.structured.match ops{["linalg.generic"]} in %module : (!transform.any_op) -> !transform.any_op
    %rows = transform.tune.knob<"rows"> = 8 from options = [4, 8] -> !transform.param<i64>
    %columns = transform.tune.knob<"columns"> = 32 from options = [16, 32, 64] -> !transform.param<i64>
    %fused, %loops:2 = transform.structured.fuse %relu tile_sizes [%rows, %columns]
      : (!transform.any_op, !transform.param<i64>, !transform.param<i64>)
      -> (!transform.any_op, !transform.any_op, !transform.any_op)

    // The matmul inside: a step of k at a time, then vectors, for the consumer as well.
    %matmul = transform.structured.match ops{["linalg.matmul"]} in %module : (!transform.any_op) -> !transform.any_op
    %step, %k = transform.structured.tile_using_for %matmul tile_sizes [0, 0, 1]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %k "autotune.sums" : !transform.any_op
    transform.structured.vectorize %step : !transform.any_op
    transform.structured.vectorize %fused : !transform.any_op
    %fill = transform.structured.match ops{["linalg.fill"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.structured.vectorize %fill : !transform.any_op
    transform.yield
  }
}
