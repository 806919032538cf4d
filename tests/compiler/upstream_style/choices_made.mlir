// Choices by upstream's ops, some made already; a choice that a sequence is given; loops of both kinds.
func.func @choices(%a: tensor<64x48xf32>, %b: tensor<48x32xf32>, %c: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<64x48xf32>, tensor<48x32xf32>) outs(%c : tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @tile_so(%matmul: !transform.any_op {transform.readonly}, %how: !transform.param<i64> {transform.readonly},
                                    %size: !transform.param<i64> {transform.readonly}) -> !transform.any_op {
    %tiled = transform.tune.alternatives<"kind"> selected_region = %how : !transform.param<i64> -> !transform.any_op {
      %inner, %loop = transform.structured.tile_using_for %matmul tile_sizes [%size] : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
      transform.yield %inner : !transform.any_op
    }, {
      %inner, %loop = transform.structured.tile_using_forall %matmul tile_sizes [%size] : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
      transform.yield %inner : !transform.any_op
    }
    transform.yield %tiled : !transform.any_op
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %matmul = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %animal = transform.tune.knob<"animal"> = "dog" from options = ["cat", "dog", unit] -> !transform.any_param
    %bounded = transform.tune.knob<"bounded"> = 4242 from options = affine_set<(d0) : (d0 - 2 >= 0)> -> !transform.any_param
    %size = transform.tune.knob<"size"> = 4 from options = {start = 2, stop = 16, step = 2} -> !transform.param<i64>
    %way = transform.tune.knob<"way"> = 0 from options = [0, 1] -> !transform.param<i64>
    %parallel = transform.param.constant 1 -> !transform.param<i64>
    %outer = transform.param.constant 32 -> !transform.param<i64>
    %once = transform.include @tile_so failures(propagate) (%matmul, %parallel, %outer) : (!transform.any_op, !transform.param<i64>, !transform.param<i64>) -> !transform.any_op
    %twice = transform.include @tile_so failures(propagate) (%once, %way, %size) : (!transform.any_op, !transform.param<i64>, !transform.param<i64>) -> !transform.any_op
    %column = transform.tune.alternatives<"columns"> selected_region = 1 -> !transform.any_op {
      %tile, %loop = transform.structured.tile_using_for %twice tile_sizes [0, 16] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
      transform.yield %tile : !transform.any_op
    }, {
      %tile, %loop = transform.structured.tile_using_forall %twice tile_sizes [0, 16] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
      transform.yield %tile : !transform.any_op
    }
    transform.yield
  }
}
