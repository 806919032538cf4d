module attributes {transform.with_named_sequence} {
  // matmul_13x31x17_f32 for avx2
  // tile_m = 0
  // tile_n = 0
  // tile_k = 0
  // order = mnk
  // register_order = nm
  // register_m = 6
  // register_n = 2
  // vector_width = 8
  // unroll_k = 4
  // pack_b = none
  // prefetch = False
  transform.named_sequence @task_0(%op: !transform.any_op {transform.consumed}) {
    %function_0 = transform.get_parent_op %op {isolated_from_above} : (!transform.any_op) -> !transform.any_op
    %producer_0 = transform.get_producer_of_operand %op[2] : (!transform.any_op) -> !transform.any_op
    %parts_0 = transform.structured.split %op after 6 {dimension = 0} : !transform.any_op
    %main_0, %rest_0 = transform.split_handle %parts_0 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %parts_1 = transform.structured.split %main_0 after 16 {dimension = 1} : !transform.any_op
    %main_1, %rest_1 = transform.split_handle %parts_1 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 6 x 16 x 17 (m x n x k)
    %parts_2 = transform.structured.split %rest_1 after 8 {dimension = 1} : !transform.any_op
    %main_2, %rest_2 = transform.split_handle %parts_2 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 6 x 8 x 17 (m x n x k)
    %parts_3 = transform.structured.split %rest_2 after 4 {dimension = 1} : !transform.any_op
    %main_3, %rest_3 = transform.split_handle %parts_3 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 6 x 4 x 17 (m x n x k)
    %parts_4 = transform.structured.split %rest_3 after 2 {dimension = 1} : !transform.any_op
    %main_4, %rest_4 = transform.split_handle %parts_4 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 6 x 2 x 17 (m x n x k)
    // region of 6 x 1 x 17 (m x n x k)
    %parts_5 = transform.structured.split %rest_0 after 4 {dimension = 0} : !transform.any_op
    %main_5, %rest_5 = transform.split_handle %parts_5 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %parts_6 = transform.structured.split %main_5 after 16 {dimension = 1} : !transform.any_op
    %main_6, %rest_6 = transform.split_handle %parts_6 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 4 x 16 x 17 (m x n x k)
    %parts_7 = transform.structured.split %rest_6 after 8 {dimension = 1} : !transform.any_op
    %main_7, %rest_7 = transform.split_handle %parts_7 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 4 x 8 x 17 (m x n x k)
    %parts_8 = transform.structured.split %rest_7 after 4 {dimension = 1} : !transform.any_op
    %main_8, %rest_8 = transform.split_handle %parts_8 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 4 x 4 x 17 (m x n x k)
    %parts_9 = transform.structured.split %rest_8 after 2 {dimension = 1} : !transform.any_op
    %main_9, %rest_9 = transform.split_handle %parts_9 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 4 x 2 x 17 (m x n x k)
    // region of 4 x 1 x 17 (m x n x k)
    %parts_10 = transform.structured.split %rest_5 after 16 {dimension = 1} : !transform.any_op
    %main_10, %rest_10 = transform.split_handle %parts_10 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 3 x 16 x 17 (m x n x k)
    %parts_11 = transform.structured.split %rest_10 after 8 {dimension = 1} : !transform.any_op
    %main_11, %rest_11 = transform.split_handle %parts_11 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 3 x 8 x 17 (m x n x k)
    %parts_12 = transform.structured.split %rest_11 after 4 {dimension = 1} : !transform.any_op
    %main_12, %rest_12 = transform.split_handle %parts_12 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 3 x 4 x 17 (m x n x k)
    %parts_13 = transform.structured.split %rest_12 after 2 {dimension = 1} : !transform.any_op
    %main_13, %rest_13 = transform.split_handle %parts_13 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 3 x 2 x 17 (m x n x k)
    // region of 3 x 1 x 17 (m x n x k)
    %number_0 = transform.param.constant 15 : i64 -> !transform.param<i64>
    transform.annotate %producer_0 "autotune.zeros" = %number_0 : !transform.any_op, !transform.param<i64>
    %tiled_0, %loop_0 = transform.structured.tile_using_for %main_1 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_0 "autotune.sums" : !transform.any_op
    transform.annotate %loop_0 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_0 : !transform.any_op
    transform.loop.unroll %loop_0 {factor = 4} : !transform.any_op
    %tiled_1, %loop_1 = transform.structured.tile_using_for %main_2 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_1 "autotune.sums" : !transform.any_op
    transform.annotate %loop_1 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_1 : !transform.any_op
    transform.loop.unroll %loop_1 {factor = 4} : !transform.any_op
    %tiled_2, %loop_2 = transform.structured.tile_using_for %main_3 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_2 "autotune.sums" : !transform.any_op
    transform.annotate %loop_2 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_2 : !transform.any_op
    transform.loop.unroll %loop_2 {factor = 4} : !transform.any_op
    %tiled_3, %loop_3 = transform.structured.tile_using_for %main_4 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_3 "autotune.sums" : !transform.any_op
    transform.annotate %loop_3 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_3 : !transform.any_op
    transform.loop.unroll %loop_3 {factor = 4} : !transform.any_op
    %tiled_4, %loop_4 = transform.structured.tile_using_for %rest_4 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_4 "autotune.sums" : !transform.any_op
    transform.annotate %loop_4 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_4 : !transform.any_op
    transform.loop.unroll %loop_4 {factor = 4} : !transform.any_op
    %tiled_5, %loop_5 = transform.structured.tile_using_for %main_6 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_5 "autotune.sums" : !transform.any_op
    transform.annotate %loop_5 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_5 : !transform.any_op
    transform.loop.unroll %loop_5 {factor = 4} : !transform.any_op
    %tiled_6, %loop_6 = transform.structured.tile_using_for %main_7 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_6 "autotune.sums" : !transform.any_op
    transform.annotate %loop_6 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_6 : !transform.any_op
    transform.loop.unroll %loop_6 {factor = 4} : !transform.any_op
    %tiled_7, %loop_7 = transform.structured.tile_using_for %main_8 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_7 "autotune.sums" : !transform.any_op
    transform.annotate %loop_7 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_7 : !transform.any_op
    transform.loop.unroll %loop_7 {factor = 4} : !transform.any_op
    %tiled_8, %loop_8 = transform.structured.tile_using_for %main_9 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_8 "autotune.sums" : !transform.any_op
    transform.annotate %loop_8 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_8 : !transform.any_op
    transform.loop.unroll %loop_8 {factor = 4} : !transform.any_op
    %tiled_9, %loop_9 = transform.structured.tile_using_for %rest_9 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_9 "autotune.sums" : !transform.any_op
    transform.annotate %loop_9 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_9 : !transform.any_op
    transform.loop.unroll %loop_9 {factor = 4} : !transform.any_op
    %tiled_10, %loop_10 = transform.structured.tile_using_for %main_10 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_10 "autotune.sums" : !transform.any_op
    transform.annotate %loop_10 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_10 : !transform.any_op
    transform.loop.unroll %loop_10 {factor = 4} : !transform.any_op
    %tiled_11, %loop_11 = transform.structured.tile_using_for %main_11 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_11 "autotune.sums" : !transform.any_op
    transform.annotate %loop_11 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_11 : !transform.any_op
    transform.loop.unroll %loop_11 {factor = 4} : !transform.any_op
    %tiled_12, %loop_12 = transform.structured.tile_using_for %main_12 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_12 "autotune.sums" : !transform.any_op
    transform.annotate %loop_12 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_12 : !transform.any_op
    transform.loop.unroll %loop_12 {factor = 4} : !transform.any_op
    %tiled_13, %loop_13 = transform.structured.tile_using_for %main_13 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_13 "autotune.sums" : !transform.any_op
    transform.annotate %loop_13 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_13 : !transform.any_op
    transform.loop.unroll %loop_13 {factor = 4} : !transform.any_op
    %tiled_14, %loop_14 = transform.structured.tile_using_for %rest_13 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_14 "autotune.sums" : !transform.any_op
    transform.annotate %loop_14 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_14 : !transform.any_op
    transform.loop.unroll %loop_14 {factor = 4} : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.consumed}) {
    %ops_0 = transform.structured.match attributes{autotune.task = "matmul_13x31x17_f32"} in %module
      : (!transform.any_op) -> !transform.any_op
    %found_0 = transform.num_associations %ops_0 : (!transform.any_op) -> !transform.param<i64>
    %wanted_0 = transform.param.constant 1 : i64 -> !transform.param<i64>
    transform.match.param.cmpi eq %found_0, %wanted_0 : !transform.param<i64>
    transform.foreach %ops_0 : !transform.any_op {
    ^bb0(%op: !transform.any_op):
      transform.include @task_0 failures(propagate) (%op) : (!transform.any_op) -> ()
    }
    // Ops write to where their result is wanted; every other result gets a buffer of its own.
    transform.bufferization.eliminate_empty_tensors %module : !transform.any_op
    %empties = transform.structured.match ops{["tensor.empty"]} in %module
      : (!transform.any_op) -> !transform.op<"tensor.empty">
    transform.bufferization.empty_tensor_to_alloc_tensor %empties
      : (!transform.op<"tensor.empty">) -> !transform.op<"bufferization.alloc_tensor">
    // Contractions become vector.contract; transfers read straight from the sliced tensors.
    %funcs = transform.structured.match ops{["func.func"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %funcs {
      transform.apply_patterns.vector.reduction_to_contract
      transform.apply_patterns.vector.transfer_permutation_patterns
      transform.apply_patterns.tensor.fold_tensor_subset_ops_into_vector_transfers
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    // Accumulators move out of the loops that sum, into registers. Only out of those: slices of results moved out of outer
    // ones would each be carried on their own, and bufferization would copy them.
    %loops = transform.structured.match ops{["scf.for"]} attributes{autotune.sums} in %module
      : (!transform.any_op) -> !transform.any_op
    transform.loop.hoist_loop_invariant_subsets %loops : !transform.any_op
    transform.apply_cse to %funcs : !transform.any_op
    transform.apply_patterns to %funcs { transform.apply_patterns.canonicalization } : !transform.any_op
    // Tensors become buffers; results are written in place where they can be.
    %buffers = transform.bufferization.one_shot_bufferize layout{IdentityLayoutMap} %module
      {bufferize_function_boundaries = true, memcpy_op = "linalg.copy"} : (!transform.any_op) -> !transform.any_op
    %lowered = transform.structured.match ops{["func.func"]} in %buffers : (!transform.any_op) -> !transform.any_op
    transform.apply_cse to %lowered : !transform.any_op
    transform.apply_patterns to %lowered { transform.apply_patterns.canonicalization } : !transform.any_op
    // Vectors of tiles become vectors of rows: outer products, then fused multiply-adds.
    transform.apply_patterns to %lowered {
      transform.apply_patterns.vector.lower_contraction lowering_strategy = "outerproduct"
      transform.apply_patterns.vector.transfer_permutation_patterns
    } : !transform.any_op
    transform.apply_patterns to %lowered {
      transform.apply_patterns.vector.lower_multi_reduction lowering_strategy = "innerreduction"
    } : !transform.any_op
    transform.apply_patterns to %lowered {
      transform.apply_patterns.vector.lower_outerproduct
      transform.apply_patterns.vector.lower_transpose lowering_strategy = "shuffle_1d"
    } : !transform.any_op
    transform.apply_patterns to %lowered {
      transform.apply_patterns.vector.transfer_to_scf max_transfer_rank = 1 full_unroll = true
    } : !transform.any_op
    transform.apply_patterns to %lowered {
      transform.apply_patterns.vector.lower_transfer max_transfer_rank = 1
    } : !transform.any_op
    // Whole fills and copies that no schedule claimed stay linalg ops; the pass pipeline turns them into loops.
    transform.yield
  }
}
