// A convolution with bias and ReLU, by the schedule that MLIR's tutorial takes over from Halide (chapter H).
//
//   autotune tune schedules/examples/convolution.mlir
//
// Tiles of the ReLU, some columns x by some channels f; the convolution where a tile needs it; sums outside the tile.
#tap = affine_map<(y, x, f, ky, kx, c) -> (y + ky, x + kx, c)>
#weight = affine_map<(y, x, f, ky, kx, c) -> (ky, kx, c, f)>
#sum = affine_map<(y, x, f, ky, kx, c) -> (y, x, f)>
#pixel = affine_map<(y, x, f) -> (y, x, f)>
#channel = affine_map<(y, x, f) -> (f)>
!image = tensor<30x34x32xf32>
!result = tensor<28x32x64xf32>
module attributes {transform.with_named_sequence} {
  func.func @conv(%in: memref<30x34x32xf32>, %w: memref<3x3x32x64xf32>, %b: memref<64xf32>, %o: memref<28x32x64xf32>) {
    %image = bufferization.to_tensor %in restrict : memref<30x34x32xf32> to !image
    %filter = bufferization.to_tensor %w restrict : memref<3x3x32x64xf32> to tensor<3x3x32x64xf32>
    %bias = bufferization.to_tensor %b restrict : memref<64xf32> to tensor<64xf32>
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : !result
    %init = linalg.fill ins(%zero : f32) outs(%empty : !result) -> !result
    %conv = linalg.generic {indexing_maps = [#tap, #weight, #sum],
        iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
        ins(%image, %filter : !image, tensor<3x3x32x64xf32>) outs(%init : !result) {
    ^bb0(%i: f32, %k: f32, %acc: f32):
      %product = arith.mulf %i, %k : f32
      %more = arith.addf %acc, %product : f32
      linalg.yield %more : f32 } -> !result
    %relu = linalg.generic {indexing_maps = [#pixel, #channel, #pixel],
        iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%conv, %bias : !result, tensor<64xf32>) outs(%empty : !result) {
    ^bb0(%s: f32, %add: f32, %out: f32):
      %biased = arith.addf %s, %add : f32
      %most = arith.maximumf %biased, %zero : f32
      linalg.yield %most : f32 } -> !result
    bufferization.materialize_in_destination %relu in restrict writable %o : (!result, memref<28x32x64xf32>) -> ()
    return }
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.readonly}) {
    %generics = transform.structured.match ops{["linalg.generic"]} in %module : (!transform.any_op) -> !transform.any_op
    %conv, %relu = transform.split_handle %generics : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %conv "convolution" : !transform.any_op
    %columns = transform.tune.knob<"columns"> = 8 from options = [4, 8] -> !transform.param<i64>
    %channels = transform.tune.knob<"channels"> = 32 from options = [16, 32, 64] -> !transform.param<i64>
    %tile, %y, %x, %f = transform.structured.fuse %relu tile_sizes [1, %columns, %channels]
      : (!transform.any_op, !transform.param<i64>, !transform.param<i64>)
      -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    // One tap and one input channel a step; what is left has two loops that are not of size one.
    %inner = transform.structured.match attributes{convolution} in %module : (!transform.any_op) -> !transform.any_op
    %step, %sums:3 = transform.structured.tile_using_for %inner tile_sizes [0, 0, 0, 1, 1, 1]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.annotate %sums#2 "autotune.sums" : !transform.any_op
    %function = transform.structured.match ops{["func.func"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %function { transform.apply_patterns.linalg.fold_unit_extent_dims_via_slices }
      : !transform.any_op
    %flat = transform.structured.match ops{["linalg.generic", "linalg.fill"]} in %module
      : (!transform.any_op) -> !transform.any_op
    transform.structured.vectorize %flat : !transform.any_op
    transform.yield
  }
}
