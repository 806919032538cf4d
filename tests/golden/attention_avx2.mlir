module attributes {transform.with_named_sequence} {
  // attention_2x64x32_e79da1 for avx2
  // fuse = True
  // rows = 32
  // vectors = 4
  // hidden = skipped
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
    %function_0 = transform.get_parent_op %op {isolated_from_above} : (!transform.any_op) -> !transform.any_op
    // one product of the batch at a time, with all that belongs to it
    %producer_0 = transform.get_producer_of_operand %op[0] : (!transform.any_op) -> !transform.any_op
    %producer_1 = transform.get_producer_of_operand %producer_0[2] : (!transform.any_op) -> !transform.any_op
    %producer_2 = transform.get_producer_of_operand %op[1] : (!transform.any_op) -> !transform.any_op
    %producer_3 = transform.get_producer_of_operand %producer_2[1] : (!transform.any_op) -> !transform.any_op
    %producer_4 = transform.get_producer_of_operand %producer_0[0] : (!transform.any_op) -> !transform.any_op
    %producer_5 = transform.get_producer_of_operand %producer_4[1] : (!transform.any_op) -> !transform.any_op
    %producer_6 = transform.get_producer_of_operand %producer_5[1] : (!transform.any_op) -> !transform.any_op
    %producer_7 = transform.get_producer_of_operand %producer_4[0] : (!transform.any_op) -> !transform.any_op
    %producer_8 = transform.get_producer_of_operand %producer_7[0] : (!transform.any_op) -> !transform.any_op
    %producer_9 = transform.get_producer_of_operand %producer_8[2] : (!transform.any_op) -> !transform.any_op
    %producer_10 = transform.get_producer_of_operand %producer_8[0] : (!transform.any_op) -> !transform.any_op
    %tiled_0, %loop_0 = transform.structured.tile_using_for %op tile_sizes [1, 0, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
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
    transform.apply_cse to %loop_5 : !transform.any_op
    %fused_5, %loop_6 = transform.structured.fuse_into_containing_op %producer_5 into %loop_5 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_6 : !transform.any_op
    %fused_6, %loop_7 = transform.structured.fuse_into_containing_op %producer_6 into %loop_6 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_7 : !transform.any_op
    %fused_7, %loop_8 = transform.structured.fuse_into_containing_op %producer_7 into %loop_7 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_8 : !transform.any_op
    %fused_8, %loop_9 = transform.structured.fuse_into_containing_op %producer_8 into %loop_8 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_9 : !transform.any_op
    %fused_9, %loop_10 = transform.structured.fuse_into_containing_op %producer_9 into %loop_9 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_10 : !transform.any_op
    %fused_10, %loop_11 = transform.structured.fuse_into_containing_op %producer_10 into %loop_10 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_patterns to %function_0 { transform.apply_patterns.tensor.fold_tensor_empty } : !transform.any_op
    %generic_0 = transform.structured.generalize %tiled_0 : (!transform.any_op) -> !transform.any_op
    %generic_1 = transform.structured.generalize %fused_0 : (!transform.any_op) -> !transform.any_op
    %generic_2 = transform.structured.generalize %fused_2 : (!transform.any_op) -> !transform.any_op
    %generic_3 = transform.structured.generalize %fused_4 : (!transform.any_op) -> !transform.any_op
    %generic_4 = transform.structured.generalize %fused_5 : (!transform.any_op) -> !transform.any_op
    %generic_5 = transform.structured.generalize %fused_7 : (!transform.any_op) -> !transform.any_op
    %generic_6 = transform.structured.generalize %fused_8 : (!transform.any_op) -> !transform.any_op
    %generic_7 = transform.structured.generalize %fused_10 : (!transform.any_op) -> !transform.any_op
    %generic_8 = transform.structured.generalize %fused_1 : (!transform.any_op) -> !transform.any_op
    %generic_9 = transform.structured.generalize %fused_3 : (!transform.any_op) -> !transform.any_op
    %generic_10 = transform.structured.generalize %fused_6 : (!transform.any_op) -> !transform.any_op
    %generic_11 = transform.structured.generalize %fused_9 : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %loop_11 {
      transform.apply_patterns.linalg.fold_unit_extent_dims_via_slices
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %plain_0 = transform.structured.match ops{["linalg.generic"]} in %loop_11 : (!transform.any_op) -> !transform.any_op
    %plain_1, %plain_2, %plain_3, %plain_4, %plain_5, %plain_6, %plain_7, %plain_8, %plain_9, %plain_10, %plain_11, %plain_12 = transform.split_handle %plain_0 : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    %producer_11 = transform.get_producer_of_operand %plain_12[0] : (!transform.any_op) -> !transform.any_op
    %producer_12 = transform.get_producer_of_operand %producer_11[2] : (!transform.any_op) -> !transform.any_op
    %producer_13 = transform.get_producer_of_operand %plain_12[1] : (!transform.any_op) -> !transform.any_op
    %producer_14 = transform.get_producer_of_operand %producer_13[1] : (!transform.any_op) -> !transform.any_op
    %producer_15 = transform.get_producer_of_operand %producer_11[0] : (!transform.any_op) -> !transform.any_op
    %producer_16 = transform.get_producer_of_operand %producer_15[1] : (!transform.any_op) -> !transform.any_op
    %producer_17 = transform.get_producer_of_operand %producer_16[1] : (!transform.any_op) -> !transform.any_op
    %producer_18 = transform.get_producer_of_operand %producer_15[0] : (!transform.any_op) -> !transform.any_op
    %producer_19 = transform.get_producer_of_operand %producer_18[0] : (!transform.any_op) -> !transform.any_op
    %producer_20 = transform.get_producer_of_operand %producer_19[2] : (!transform.any_op) -> !transform.any_op
    %producer_21 = transform.get_producer_of_operand %producer_19[0] : (!transform.any_op) -> !transform.any_op
    // blocks of rows; what feeds them is computed where it is used
    %rows_0 = transform.tune.knob<"rows"> = 32 from options = [1, 2, 4, 8, 16, 32, 64] -> !transform.param<i64>
    %tiled_1, %loop_12 = transform.structured.tile_using_for %plain_12 tile_sizes [%rows_0, 0] : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_12 : !transform.any_op
    %fused_11, %loop_13 = transform.structured.fuse_into_containing_op %producer_11 into %loop_12 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_13 : !transform.any_op
    %fused_12, %loop_14 = transform.structured.fuse_into_containing_op %producer_12 into %loop_13 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_14 : !transform.any_op
    %fused_13, %loop_15 = transform.structured.fuse_into_containing_op %producer_13 into %loop_14 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_15 : !transform.any_op
    %fused_14, %loop_16 = transform.structured.fuse_into_containing_op %producer_14 into %loop_15 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_16 : !transform.any_op
    %fused_15, %loop_17 = transform.structured.fuse_into_containing_op %producer_15 into %loop_16 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_17 : !transform.any_op
    %fused_16, %loop_18 = transform.structured.fuse_into_containing_op %producer_16 into %loop_17 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_18 : !transform.any_op
    %fused_17, %loop_19 = transform.structured.fuse_into_containing_op %producer_17 into %loop_18 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_19 : !transform.any_op
    %fused_18, %loop_20 = transform.structured.fuse_into_containing_op %producer_18 into %loop_19 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_20 : !transform.any_op
    %fused_19, %loop_21 = transform.structured.fuse_into_containing_op %producer_19 into %loop_20 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_21 : !transform.any_op
    %fused_20, %loop_22 = transform.structured.fuse_into_containing_op %producer_20 into %loop_21 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_cse to %loop_22 : !transform.any_op
    %fused_21, %loop_23 = transform.structured.fuse_into_containing_op %producer_21 into %loop_22 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.apply_patterns to %function_0 { transform.apply_patterns.tensor.fold_tensor_empty } : !transform.any_op
    transform.annotate %loop_23 "autotune.row_blocks" : !transform.any_op
    %parts_0 = transform.structured.split %fused_19 after 24 {dimension = 0} : !transform.any_op
    %main_0, %rest_0 = transform.split_handle %parts_0 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 24 x 64 x 32 (m x n x k)
    %tiled_2, %loop_24 = transform.structured.tile_using_for %main_0 tile_sizes [6, 0, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_3, %loop_25 = transform.structured.tile_using_for %tiled_2 tile_sizes [0, 16, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_25 "autotune.hidden" : !transform.any_op
    // copy B into panels, in the order the k loop reads it in
    transform.apply_patterns to %loop_24 {
      transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %padded_0, %pad_0, %copy_0 = transform.structured.pad %tiled_3 {padding_values = [0.0 : f32, 0.0 : f32, 0.0 : f32], padding_dimensions = [0, 1, 2], nofold_flags = [0, 1, 0], copy_back_op = "none"} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.annotate %pad_0 "autotune.packed" : !transform.any_op
    %source_0 = transform.get_producer_of_operand %padded_0[1] : (!transform.any_op) -> !transform.op<"tensor.pad">
    %hoisted_0 = transform.structured.hoist_pad %source_0 by 3 loops, transpose by [1, 0] : (!transform.op<"tensor.pad">) -> !transform.any_op
    %back_0 = transform.get_producer_of_operand %padded_0[1] : (!transform.any_op) -> !transform.any_op
    %pads_0 = transform.structured.match ops{["tensor.pad"]} attributes{autotune.packed} in %function_0 : (!transform.any_op) -> !transform.any_op
    %turned_0 = transform.get_consumers_of_result %pads_0[0] : (!transform.any_op) -> !transform.any_op
    %tiled_4, %loop_26, %loop_27 = transform.structured.tile_using_for %turned_0 tile_sizes [8, 8] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    %fused_22, %loop_28 = transform.structured.fuse_into_containing_op %pads_0 into %loop_27 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %fused_22 vector_sizes [8, 8] : !transform.any_op
    transform.structured.vectorize %tiled_4 : !transform.any_op
    transform.apply_dce to %function_0 : !transform.any_op
    // region of 8 x 64 x 32 (m x n x k)
    %tiled_5, %loop_29 = transform.structured.tile_using_for %rest_0 tile_sizes [4, 0, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_6, %loop_30 = transform.structured.tile_using_for %tiled_5 tile_sizes [0, 16, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_30 "autotune.hidden" : !transform.any_op
    // copy B into panels, in the order the k loop reads it in
    transform.apply_patterns to %loop_29 {
      transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %padded_1, %pad_1, %copy_1 = transform.structured.pad %tiled_6 {padding_values = [0.0 : f32, 0.0 : f32, 0.0 : f32], padding_dimensions = [0, 1, 2], nofold_flags = [0, 1, 0], copy_back_op = "none"} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.annotate %pad_1 "autotune.packed" : !transform.any_op
    %source_1 = transform.get_producer_of_operand %padded_1[1] : (!transform.any_op) -> !transform.op<"tensor.pad">
    %hoisted_1 = transform.structured.hoist_pad %source_1 by 3 loops, transpose by [1, 0] : (!transform.op<"tensor.pad">) -> !transform.any_op
    %back_1 = transform.get_producer_of_operand %padded_1[1] : (!transform.any_op) -> !transform.any_op
    %pads_1 = transform.structured.match ops{["tensor.pad"]} attributes{autotune.packed} in %function_0 : (!transform.any_op) -> !transform.any_op
    %turned_1 = transform.get_consumers_of_result %pads_1[0] : (!transform.any_op) -> !transform.any_op
    %tiled_7, %loop_31, %loop_32 = transform.structured.tile_using_for %turned_1 tile_sizes [8, 8] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    %fused_23, %loop_33 = transform.structured.fuse_into_containing_op %pads_1 into %loop_32 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %fused_23 vector_sizes [8, 8] : !transform.any_op
    transform.structured.vectorize %tiled_7 : !transform.any_op
    transform.apply_dce to %function_0 : !transform.any_op
    transform.apply_cse to %loop_11 : !transform.any_op
    // region of 32 x 32 x 64 (m x n x k)
    %tiled_8, %loop_34 = transform.structured.tile_using_for %fused_11 tile_sizes [4, 0, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_9, %loop_35 = transform.structured.tile_using_for %tiled_8 tile_sizes [0, 16, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_10, %loop_36 = transform.structured.tile_using_for %fused_21 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %tiled_10 : !transform.any_op
    %tiled_11, %loop_37 = transform.structured.tile_using_for %fused_18 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_12, %loop_38 = transform.structured.tile_using_for %tiled_11 tile_sizes [0, 32] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_38 "autotune.hidden" : !transform.any_op
    transform.annotate %loop_38 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_12 : !transform.any_op
    %tiled_13, %loop_39 = transform.structured.tile_using_for %fused_16 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %strands_0, %partial_0, %combined_0, %loop_40 = transform.structured.tile_reduction_using_for %tiled_13 by tile_sizes = [0, 32] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.annotate %loop_40 "autotune.sums" : !transform.any_op
    transform.annotate %loop_40 "autotune.hidden" : !transform.any_op
    transform.structured.vectorize %strands_0 : !transform.any_op
    transform.structured.vectorize %partial_0 : !transform.any_op
    transform.structured.vectorize %combined_0 : !transform.any_op
    %tiled_14, %loop_41 = transform.structured.tile_using_for %fused_15 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tiled_15, %loop_42 = transform.structured.tile_using_for %tiled_14 tile_sizes [0, 32] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_42 "autotune.hidden" : !transform.any_op
    transform.annotate %loop_42 "autotune.sums" : !transform.any_op
    transform.structured.vectorize %tiled_15 : !transform.any_op
    %tiled_16, %loop_43 = transform.structured.tile_using_for %fused_13 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %strands_1, %partial_1, %combined_1, %loop_44 = transform.structured.tile_reduction_using_for %tiled_16 by tile_sizes = [0, 32] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op, !transform.any_op)
    transform.annotate %loop_44 "autotune.sums" : !transform.any_op
    transform.annotate %loop_44 "autotune.hidden" : !transform.any_op
    transform.structured.vectorize %strands_1 : !transform.any_op
    transform.structured.vectorize %partial_1 : !transform.any_op
    transform.structured.vectorize %combined_1 : !transform.any_op
    %tiled_17, %loop_45 = transform.structured.tile_using_for %tiled_1 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %tiled_17 : !transform.any_op
    %number_0 = transform.param.constant 2 : i64 -> !transform.param<i64>
    transform.annotate %fused_20 "autotune.zeros" = %number_0 : !transform.any_op, !transform.param<i64>
    %tiled_18, %loop_46 = transform.structured.tile_using_for %padded_0 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_46 "autotune.sums" : !transform.any_op
    transform.annotate %loop_46 "autotune.from_zero" : !transform.any_op
    %fused_24, %loop_47 = transform.structured.fuse_into_containing_op %back_0 into %loop_46 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %fused_24 : !transform.any_op
    transform.structured.vectorize %tiled_18 : !transform.any_op
    transform.loop.unroll %loop_46 {factor = 4} : !transform.any_op
    %tiled_19, %loop_48 = transform.structured.tile_using_for %padded_1 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_48 "autotune.sums" : !transform.any_op
    transform.annotate %loop_48 "autotune.from_zero" : !transform.any_op
    %fused_25, %loop_49 = transform.structured.fuse_into_containing_op %back_1 into %loop_48 : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %fused_25 : !transform.any_op
    transform.structured.vectorize %tiled_19 : !transform.any_op
    transform.loop.unroll %loop_48 {factor = 4} : !transform.any_op
    %number_1 = transform.param.constant 1 : i64 -> !transform.param<i64>
    transform.annotate %fused_12 "autotune.zeros" = %number_1 : !transform.any_op, !transform.param<i64>
    %tiled_20, %loop_50 = transform.structured.tile_using_for %tiled_9 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_50 "autotune.hidden" : !transform.any_op
    transform.annotate %loop_50 "autotune.sums" : !transform.any_op
    transform.annotate %loop_50 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_20 : !transform.any_op
    transform.loop.unroll %loop_50 {factor = 4} : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.consumed}) {
    %ops_0 = transform.structured.match attributes{autotune.task = "attention_2x64x32_e79da1"} in %module
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
