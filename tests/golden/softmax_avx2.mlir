module attributes {transform.with_named_sequence} {
  // rows_16x33_e12a3a for avx2
  // fuse = True
  // rows = 4
  // vectors = 4
  // prefetch_rows = False
  // prefetch_written = False
  // math = polynomial
  transform.named_sequence @task_0(%op: !transform.any_op {transform.consumed}) {
    %function_0 = transform.get_parent_op %op {isolated_from_above} : (!transform.any_op) -> !transform.any_op
    %producer_0 = transform.get_producer_of_operand %op[1] : (!transform.any_op) -> !transform.any_op
    %producer_1 = transform.get_producer_of_operand %producer_0[1] : (!transform.any_op) -> !transform.any_op
    %producer_2 = transform.get_producer_of_operand %op[0] : (!transform.any_op) -> !transform.any_op
    %producer_3 = transform.get_producer_of_operand %producer_2[1] : (!transform.any_op) -> !transform.any_op
    %producer_4 = transform.get_producer_of_operand %producer_3[1] : (!transform.any_op) -> !transform.any_op
    // blocks of rows; what feeds them is computed where it is used
    %rows_0 = transform.tune.knob<"rows"> = 4 from options = [1, 2, 4, 8, 16] -> !transform.param<i64>
    %tiled_0, %loop_0 = transform.structured.tile_using_for %op tile_sizes [%rows_0, 0] : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_0 : !transform.any_op
    %fused_0, %loop_1 = transform.structured.fuse_into_containing_op %producer_0 into %loop_0 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_1 : !transform.any_op
    %fused_1, %loop_2 = transform.structured.fuse_into_containing_op %producer_1 into %loop_1 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_2 : !transform.any_op
    %fused_2, %loop_3 = transform.structured.fuse_into_containing_op %producer_2 into %loop_2 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_3 : !transform.any_op
    %fused_3, %loop_4 = transform.structured.fuse_into_containing_op %producer_3 into %loop_3 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_4 : !transform.any_op
    %fused_4, %loop_5 = transform.structured.fuse_into_containing_op %producer_4 into %loop_4 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_patterns to %function_0 { transform.apply_patterns.tensor.fold_tensor_empty } : !transform.any_op
    %parts_0 = transform.structured.split %fused_3 after 32 {dimension = 1} : !transform.any_op
    %main_0, %rest_0 = transform.split_handle %parts_0 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_1, %loop_6 = transform.structured.tile_using_for %main_0 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_6 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_1 : !transform.any_op
    %tiled_2, %loop_7 = transform.structured.tile_using_for %rest_0 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_7 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_2 : !transform.any_op
    %parts_1 = transform.structured.split %fused_2 after 32 {dimension = 1} : !transform.any_op
    %main_1, %rest_1 = transform.split_handle %parts_1 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_3, %loop_8 = transform.structured.tile_using_for %main_1 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_8 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_3 : !transform.any_op
    %tiled_4, %loop_9 = transform.structured.tile_using_for %rest_1 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_9 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_4 : !transform.any_op
    %parts_2 = transform.structured.split %fused_0 after 32 {dimension = 1} : !transform.any_op
    %main_2, %rest_2 = transform.split_handle %parts_2 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_5, %loop_10 = transform.structured.tile_using_for %main_2 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_10 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_5 : !transform.any_op
    %tiled_6, %loop_11 = transform.structured.tile_using_for %rest_2 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_11 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_6 : !transform.any_op
    %parts_3 = transform.structured.split %tiled_0 after 32 {dimension = 1} : !transform.any_op
    %main_3, %rest_3 = transform.split_handle %parts_3 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_7, %loop_12 = transform.structured.tile_using_for %main_3 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_12 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_7 : !transform.any_op
    %tiled_8, %loop_13 = transform.structured.tile_using_for %rest_3 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_13 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_8 : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.consumed}) {
    %ops_0 = transform.structured.match attributes{autotune.task = "rows_16x33_e12a3a"} in %module
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
