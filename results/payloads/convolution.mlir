func.func @conv(%x: memref<1x64x30x30xf32>, %w: memref<64x64x3x3xf32>, %out: memref<1x64x28x28xf32>) {
  %X = bufferization.to_tensor %x restrict : memref<1x64x30x30xf32> to tensor<1x64x30x30xf32>
  %W = bufferization.to_tensor %w restrict : memref<64x64x3x3xf32> to tensor<64x64x3x3xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x64x28x28xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x64x28x28xf32>) -> tensor<1x64x28x28xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%X, %W : tensor<1x64x30x30xf32>, tensor<64x64x3x3xf32>)
                     outs(%init : tensor<1x64x28x28xf32>) -> tensor<1x64x28x28xf32>
  bufferization.materialize_in_destination %r in restrict writable %out
    : (tensor<1x64x28x28xf32>, memref<1x64x28x28xf32>) -> ()
  return
}
