module attributes {transform.with_named_sequence} {
  // batch_matmul_2x8x8x4_f32_tb for sse
  // tile_m = 0
  // tile_n = 0
  // tile_k = 0
  // order = mnk
  // register_order = nm
  // register_m = 8
  // register_n = 1
  // vector_width = 4
  // unroll_k = 1
  // pack_b = panels
  // prefetch = False
  transform.named_sequence @task_0(%op: !transform.any_op {transform.consumed}) {
    %function_0 = transform.get_parent_op %op {isolated_from_above} : (!transform.any_op) -> !transform.any_op
    %producer_0 = transform.get_producer_of_operand %op[2] : (!transform.any_op) -> !transform.any_op
    // one product of the batch at a time
    %tiled_0, %loop_0 = transform.structured.tile_using_for %op tile_sizes [1, 0, 0, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.generalize %tiled_0 : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %loop_0 { transform.apply_patterns.linalg.fold_unit_extent_dims_via_slices } : !transform.any_op
    %plain_0 = transform.structured.match ops{["linalg.generic"]} in %loop_0 : (!transform.any_op) -> !transform.any_op
    // region of 8 x 8 x 4 (m x n x k)
    %tiled_1, %loop_1 = transform.structured.tile_using_for %plain_0 tile_sizes [0, 4, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // copy B into panels, in the order the k loop reads it in
    transform.apply_patterns to %loop_1 {
      transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %padded_0, %pad_0, %copy_0 = transform.structured.pad %tiled_1 {padding_values = [0.0 : f32, 0.0 : f32, 0.0 : f32], padding_dimensions = [0, 1, 2], nofold_flags = [0, 1, 0], copy_back_op = "none"} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.annotate %pad_0 "autotune.packed" : !transform.any_op
    %source_0 = transform.get_producer_of_operand %padded_0[1] : (!transform.any_op) -> !transform.op<"tensor.pad">
    %hoisted_0 = transform.structured.hoist_pad %source_0 by 1 loops, transpose by [1, 0] : (!transform.op<"tensor.pad">) -> !transform.any_op
    %back_0 = transform.get_producer_of_operand %padded_0[1] : (!transform.any_op) -> !transform.any_op
    %pads_0 = transform.structured.match ops{["tensor.pad"]} attributes{autotune.packed} in %function_0 : (!transform.any_op) -> !transform.any_op
    %turned_0 = transform.get_consumers_of_result %pads_0[0] : (!transform.any_op) -> !transform.any_op
    %tiled_2, %loop_2, %loop_3 = transform.structured.tile_using_for %turned_0 tile_sizes [4, 4] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    %fused_0, %loop_4 = transform.structured.fuse_into_containing_op %pads_0 into %loop_3 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %fused_0 vector_sizes [4, 4] : !transform.any_op
    transform.structured.vectorize %tiled_2 : !transform.any_op
    transform.apply_dce to %function_0 : !transform.any_op
    %number_0 = transform.param.constant 1 : i64 -> !transform.param<i64>
    transform.annotate %producer_0 "autotune.zeros" = %number_0 : !transform.any_op, !transform.param<i64>
    %tiled_3, %loop_5 = transform.structured.tile_using_for %padded_0 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_5 "autotune.sums" : !transform.any_op
    transform.annotate %loop_5 "autotune.from_zero" : !transform.any_op
    %fused_1, %loop_6 = transform.structured.fuse_into_containing_op %back_0 into %loop_5 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %fused_1 : !transform.any_op
    transform.structured.vectorize %tiled_3 : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.consumed}) {
    %ops_0 = transform.structured.match attributes{autotune.task = "batch_matmul_2x8x8x4_f32_tb"} in %module
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
