// A matmul in packed layout; the script beside the function, in the same module.
module attributes {transform.with_named_sequence} {
  func.func @packed(%a: tensor<32x24xf32>, %b: tensor<24x40xf32>, %c: tensor<32x40xf32>) -> tensor<32x40xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<32x24xf32>, tensor<24x40xf32>) outs(%c : tensor<32x40xf32>) -> tensor<32x40xf32>
    return %0 : tensor<32x40xf32>
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.readonly}) {
    %matmul = transform.structured.match ops{["linalg.matmul"]} in %module : (!transform.any_op) -> !transform.any_op
    %packed = transform.structured.pack %matmul packed_sizes = [8, 4, 6] : (!transform.any_op) -> !transform.op<"linalg.generic">
    %rows = transform.tune.knob<"rows"> options = [1, 2, 4] -> !transform.param<i64>
    %tile, %loop = transform.structured.tile_using_for %packed tile_sizes [%rows]
      : (!transform.op<"linalg.generic">, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}
