module attributes {transform.with_named_sequence, autotune.online = {attention_2x128x32_ac4d42 = {rows = 32, columns = 64, skips = true}}} {
  // attention_2x128x32_ac4d42 for avx2
  // fuse = True
  // rows = 32
  // vectors = 4
  // hidden = skipped
  // online = 64
  // tile_n_1 = 0
  // tile_k_1 = 0
  // register_order_1 = mn
  // register_m_1 = 6
  // register_n_1 = 2
  // vector_width_1 = 8
  // unroll_k_1 = 4
  // pack_b_1 = panels
  // tile_n_2 = 0
  // tile_k_2 = 0
  // register_order_2 = mn
  // register_m_2 = 4
  // register_n_2 = 2
  // vector_width_2 = 8
  // unroll_k_2 = 4
  // pack_b_2 = none
  // math = polynomial
  transform.named_sequence @task_0(%op: !transform.any_op {transform.consumed}) {
    // the softmax is online: loops over blocks of rows and columns are there
    %function_0 = transform.get_parent_op %op {isolated_from_above} : (!transform.any_op) -> !transform.any_op
    %rows_0 = transform.structured.match attributes{autotune.part = "rows"} in %op : (!transform.any_op) -> !transform.any_op
    %columns_0 = transform.structured.match attributes{autotune.part = "columns"} in %op : (!transform.any_op) -> !transform.any_op
    %member_6_0 = transform.structured.match attributes{autotune.part = "member_6"} in %op : (!transform.any_op) -> !transform.any_op
    %producer_0 = transform.get_producer_of_operand %member_6_0[2] : (!transform.any_op) -> !transform.any_op
    %parts_0 = transform.structured.split %member_6_0 after 24 {dimension = 0} : !transform.any_op
    %main_0, %rest_0 = transform.split_handle %parts_0 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 24 x 64 x 32 (m x n x k)
    %tiled_0, %loop_0 = transform.structured.tile_using_for %main_0 tile_sizes [6, 0, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_1, %loop_1 = transform.structured.tile_using_for %tiled_0 tile_sizes [0, 16, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // copy B into panels, in the order the k loop reads it in
    transform.apply_patterns to %loop_0 {
      transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %padded_0, %pad_0, %copy_0 = transform.structured.pad %tiled_1 {padding_values = [0.0 : f32, 0.0 : f32, 0.0 : f32], padding_dimensions = [0, 1, 2], nofold_flags = [0, 1, 0], copy_back_op = "none"} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.annotate %pad_0 "autotune.packed" : !transform.any_op
    %source_0 = transform.get_producer_of_operand %padded_0[1] : (!transform.any_op) -> !transform.op<"tensor.pad">
    %hoisted_0 = transform.structured.hoist_pad %source_0 by 2 loops, transpose by [1, 0] : (!transform.op<"tensor.pad">) -> !transform.any_op
    %back_0 = transform.get_producer_of_operand %padded_0[1] : (!transform.any_op) -> !transform.any_op
    %pads_0 = transform.structured.match ops{["tensor.pad"]} attributes{autotune.packed} in %function_0 : (!transform.any_op) -> !transform.any_op
    %turned_0 = transform.get_consumers_of_result %pads_0[0] : (!transform.any_op) -> !transform.any_op
    %tiled_2, %loop_2, %loop_3 = transform.structured.tile_using_for %turned_0 tile_sizes [8, 8] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    %fused_0, %loop_4 = transform.structured.fuse_into_containing_op %pads_0 into %loop_3 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %fused_0 vector_sizes [8, 8] : !transform.any_op
    transform.structured.vectorize %tiled_2 : !transform.any_op
    transform.apply_dce to %function_0 : !transform.any_op
    // region of 8 x 64 x 32 (m x n x k)
    %tiled_3, %loop_5 = transform.structured.tile_using_for %rest_0 tile_sizes [4, 0, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_4, %loop_6 = transform.structured.tile_using_for %tiled_3 tile_sizes [0, 16, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // copy B into panels, in the order the k loop reads it in
    transform.apply_patterns to %loop_5 {
      transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %padded_1, %pad_1, %copy_1 = transform.structured.pad %tiled_4 {padding_values = [0.0 : f32, 0.0 : f32, 0.0 : f32], padding_dimensions = [0, 1, 2], nofold_flags = [0, 1, 0], copy_back_op = "none"} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.annotate %pad_1 "autotune.packed" : !transform.any_op
    %source_1 = transform.get_producer_of_operand %padded_1[1] : (!transform.any_op) -> !transform.op<"tensor.pad">
    %hoisted_1 = transform.structured.hoist_pad %source_1 by 2 loops, transpose by [1, 0] : (!transform.op<"tensor.pad">) -> !transform.any_op
    %back_1 = transform.get_producer_of_operand %padded_1[1] : (!transform.any_op) -> !transform.any_op
    %pads_1 = transform.structured.match ops{["tensor.pad"]} attributes{autotune.packed} in %function_0 : (!transform.any_op) -> !transform.any_op
    %turned_1 = transform.get_consumers_of_result %pads_1[0] : (!transform.any_op) -> !transform.any_op
    %tiled_5, %loop_7, %loop_8 = transform.structured.tile_using_for %turned_1 tile_sizes [8, 8] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    %fused_1, %loop_9 = transform.structured.fuse_into_containing_op %pads_1 into %loop_8 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %fused_1 vector_sizes [8, 8] : !transform.any_op
    transform.structured.vectorize %tiled_5 : !transform.any_op
    transform.apply_dce to %function_0 : !transform.any_op
    %member_1_0 = transform.structured.match attributes{autotune.part = "member_1"} in %op : (!transform.any_op) -> !transform.any_op
    // region of 32 x 32 x 64 (m x n x k)
    %tiled_6, %loop_10 = transform.structured.tile_using_for %member_1_0 tile_sizes [4, 0, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_7, %loop_11 = transform.structured.tile_using_for %tiled_6 tile_sizes [0, 16, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %member_7_0 = transform.structured.match attributes{autotune.part = "member_7"} in %op : (!transform.any_op) -> !transform.any_op
    %tiled_8, %loop_12 = transform.structured.tile_using_for %member_7_0 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_12 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_8 : !transform.any_op
    %member_5_0 = transform.structured.match attributes{autotune.part = "member_5"} in %op : (!transform.any_op) -> !transform.any_op
    %tiled_9, %loop_13 = transform.structured.tile_using_for %member_5_0 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_10, %loop_14 = transform.structured.tile_using_for %tiled_9 tile_sizes [0, 32] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_14 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_10 : !transform.any_op
    %member_4_0 = transform.structured.match attributes{autotune.part = "member_4"} in %op : (!transform.any_op) -> !transform.any_op
    %tiled_11, %loop_15 = transform.structured.tile_using_for %member_4_0 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %strands_0, %partial_0, %combined_0, %loop_16 = transform.structured.tile_reduction_using_for %tiled_11 by tile_sizes = [0, 32] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.annotate %loop_16 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %strands_0 : !transform.any_op
    transform.structured.vectorize %partial_0 : !transform.any_op
    transform.structured.vectorize %combined_0 : !transform.any_op
    %member_3_0 = transform.structured.match attributes{autotune.part = "member_3"} in %op : (!transform.any_op) -> !transform.any_op
    %tiled_12, %loop_17 = transform.structured.tile_using_for %member_3_0 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_13, %loop_18 = transform.structured.tile_using_for %tiled_12 tile_sizes [0, 32] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_18 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_13 : !transform.any_op
    %member_2_0 = transform.structured.match attributes{autotune.part = "member_2"} in %op : (!transform.any_op) -> !transform.any_op
    %tiled_14, %loop_19 = transform.structured.tile_using_for %member_2_0 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %strands_1, %partial_1, %combined_1, %loop_20 = transform.structured.tile_reduction_using_for %tiled_14 by tile_sizes = [0, 32] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.annotate %loop_20 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %strands_1 : !transform.any_op
    transform.structured.vectorize %partial_1 : !transform.any_op
    transform.structured.vectorize %combined_1 : !transform.any_op
    %member_0_0 = transform.structured.match attributes{autotune.part = "member_0"} in %op : (!transform.any_op) -> !transform.any_op
    %tiled_15, %loop_21 = transform.structured.tile_using_for %member_0_0 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_21 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_15 : !transform.any_op
    %factor_0 = transform.structured.match attributes{autotune.part = "factor"} in %op : (!transform.any_op) -> !transform.any_op
    transform.structured.vectorize %factor_0 : !transform.any_op
    %row_totals_0 = transform.structured.match attributes{autotune.part = "row_totals"} in %op : (!transform.any_op) -> !transform.any_op
    transform.structured.vectorize %row_totals_0 : !transform.any_op
    %totals_0 = transform.structured.match attributes{autotune.part = "totals"} in %op : (!transform.any_op) -> !transform.any_op
    %tiled_16, %loop_22 = transform.structured.tile_using_for %totals_0 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_22 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_16 : !transform.any_op
    %number_0 = transform.param.constant 2 : i64 -> !transform.param<i64>
    transform.annotate %producer_0 "autotune.zeros" = %number_0 : !transform.any_op, !transform.param<i64>
    %tiled_17, %loop_23 = transform.structured.tile_using_for %padded_0 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_23 "autotune.sums" : !transform.any_op
    transform.annotate %loop_23 "autotune.from_zero" : !transform.any_op
    %fused_2, %loop_24 = transform.structured.fuse_into_containing_op %back_0 into %loop_23 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %fused_2 : !transform.any_op
    transform.structured.vectorize %tiled_17 : !transform.any_op
    transform.loop.unroll %loop_23 {factor = 4} : !transform.any_op
    %tiled_18, %loop_25 = transform.structured.tile_using_for %padded_1 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_25 "autotune.sums" : !transform.any_op
    transform.annotate %loop_25 "autotune.from_zero" : !transform.any_op
    %fused_3, %loop_26 = transform.structured.fuse_into_containing_op %back_1 into %loop_25 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %fused_3 : !transform.any_op
    transform.structured.vectorize %tiled_18 : !transform.any_op
    transform.loop.unroll %loop_25 {factor = 4} : !transform.any_op
    %tiled_19, %loop_27 = transform.structured.tile_using_for %tiled_7 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_27 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_19 : !transform.any_op
    transform.loop.unroll %loop_27 {factor = 4} : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.consumed}) {
    %ops_0 = transform.structured.match attributes{autotune.task = "attention_2x128x32_ac4d42"} in %module
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
