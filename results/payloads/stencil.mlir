// Nine points of a plane, weighted.
func.func @stencil(%x: tensor<258x514xf32>, %k: tensor<3x3xf32>) -> tensor<256x512xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256x512xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<256x512xf32>) -> tensor<256x512xf32>
  %r = linalg.conv_2d ins(%x, %k : tensor<258x514xf32>, tensor<3x3xf32>) outs(%z : tensor<256x512xf32>)
    -> tensor<256x512xf32>
  return %r : tensor<256x512xf32>
}
