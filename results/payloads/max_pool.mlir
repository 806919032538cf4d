// The largest of every square of 2 x 2 of planes.
func.func @max_pool(%x: tensor<1x32x112x112xf32>) -> tensor<1x32x56x56xf32> {
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<1x32x56x56xf32>
  %z = linalg.fill ins(%low : f32) outs(%e : tensor<1x32x56x56xf32>) -> tensor<1x32x56x56xf32>
  %k = tensor.empty() : tensor<2x2xf32>
  %r = linalg.pooling_nchw_max {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
    ins(%x, %k : tensor<1x32x112x112xf32>, tensor<2x2xf32>) outs(%z : tensor<1x32x56x56xf32>) -> tensor<1x32x56x56xf32>
  return %r : tensor<1x32x56x56xf32>
}
