module attributes {transform.with_named_sequence} {
  // matmul_512x512x512_f32 for avx512
  // tile_m = 0
  // tile_n = 256
  // tile_k = 256
  // order = nkm
  // register_order = mn
  // register_m = 6
  // register_n = 4
  // vector_width = 16
  // unroll_k = 4
  // pack_b = panels
  // prefetch = True
  transform.named_sequence @task_0(%op: !transform.any_op {transform.consumed}) {
    %function_0 = transform.get_parent_op %op {isolated_from_above} : (!transform.any_op) -> !transform.any_op
    %producer_0 = transform.get_producer_of_operand %op[2] : (!transform.any_op) -> !transform.any_op
    %tiled_0, %loop_0 = transform.structured.tile_using_for %op tile_sizes [512, 0, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tile_n_0 = transform.tune.knob<"tile_n"> = 256 from options = [0, 64, 128, 256] -> !transform.param<i64>
    %tiled_1, %loop_1 = transform.structured.tile_using_for %tiled_0 tile_sizes [0, %tile_n_0, 0] : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_1 "autotune.blocks_of_n" : !transform.any_op
    %tile_k_0 = transform.tune.knob<"tile_k"> = 256 from options = [0, 64, 128, 256, 384] -> !transform.param<i64>
    %tiled_2, %loop_2 = transform.structured.tile_using_for %tiled_1 tile_sizes [0, 0, %tile_k_0] : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_2 "autotune.blocks_of_k" : !transform.any_op
    %parts_0 = transform.structured.split %tiled_2 after 504 {dimension = 0} : !transform.any_op
    %main_0, %rest_0 = transform.split_handle %parts_0 : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // region of 504 x 512 x 512 (m x n x k)
    %register_m_0 = transform.tune.knob<"register_m"> = 6 from options = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14] -> !transform.param<i64>
    %tiled_3, %loop_3 = transform.structured.tile_using_for %main_0 tile_sizes [%register_m_0, 0, 0] : (!transform.any_op, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_3 "autotune.strips_of_m" : !transform.any_op
    %tiled_4, %loop_4 = transform.structured.tile_using_for %tiled_3 tile_sizes [0, 64, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // copy B into panels, in the order the k loop reads it in
    transform.apply_patterns to %loop_3 {
      transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %padded_0, %pad_0, %copy_0 = transform.structured.pad %tiled_4 {padding_values = [0.0 : f32, 0.0 : f32, 0.0 : f32], padding_dimensions = [0, 1, 2], nofold_flags = [0, 1, 0], copy_back_op = "none"} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.annotate %pad_0 "autotune.packed" : !transform.any_op
    %source_0 = transform.get_producer_of_operand %padded_0[1] : (!transform.any_op) -> !transform.op<"tensor.pad">
    %hoisted_0 = transform.structured.hoist_pad %source_0 by 2 loops : (!transform.op<"tensor.pad">) -> !transform.any_op
    %pads_0 = transform.structured.match ops{["tensor.pad"]} attributes{autotune.packed} in %function_0 : (!transform.any_op) -> !transform.any_op
    %tiled_5, %loop_5, %loop_6 = transform.structured.tile_using_for %pads_0 tile_sizes [8, 64] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.structured.vectorize %tiled_5 vector_sizes [8, 64] : !transform.any_op
    transform.annotate %loop_5 "autotune.copies" : !transform.any_op
    // region of 8 x 512 x 512 (m x n x k)
    %tiled_6, %loop_7 = transform.structured.tile_using_for %rest_0 tile_sizes [4, 0, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_7 "autotune.strips_of_m" : !transform.any_op
    %tiled_7, %loop_8 = transform.structured.tile_using_for %tiled_6 tile_sizes [0, 64, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    // copy B into panels, in the order the k loop reads it in
    transform.apply_patterns to %loop_7 {
      transform.apply_patterns.tensor.merge_consecutive_insert_extract_slice
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %padded_1, %pad_1, %copy_1 = transform.structured.pad %tiled_7 {padding_values = [0.0 : f32, 0.0 : f32, 0.0 : f32], padding_dimensions = [0, 1, 2], nofold_flags = [0, 1, 0], copy_back_op = "none"} : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.annotate %pad_1 "autotune.packed" : !transform.any_op
    %source_1 = transform.get_producer_of_operand %padded_1[1] : (!transform.any_op) -> !transform.op<"tensor.pad">
    %hoisted_1 = transform.structured.hoist_pad %source_1 by 2 loops : (!transform.op<"tensor.pad">) -> !transform.any_op
    %pads_1 = transform.structured.match ops{["tensor.pad"]} attributes{autotune.packed} in %function_0 : (!transform.any_op) -> !transform.any_op
    %tiled_8, %loop_9, %loop_10 = transform.structured.tile_using_for %pads_1 tile_sizes [8, 64] : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.structured.vectorize %tiled_8 vector_sizes [8, 64] : !transform.any_op
    transform.annotate %loop_9 "autotune.copies" : !transform.any_op
    transform.apply_cse to %loop_0 : !transform.any_op
    %number_0 = transform.param.constant 2 : i64 -> !transform.param<i64>
    transform.annotate %producer_0 "autotune.zeros" = %number_0 : !transform.any_op, !transform.param<i64>
    %tiled_9, %loop_11 = transform.structured.tile_using_for %padded_0 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_11 "autotune.sums" : !transform.any_op
    transform.annotate %loop_11 "autotune.prefetching" : !transform.any_op
    transform.annotate %loop_11 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_9 : !transform.any_op
    transform.loop.unroll %loop_11 {factor = 4} : !transform.any_op
    %tiled_10, %loop_12 = transform.structured.tile_using_for %padded_1 tile_sizes [0, 0, 1] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_12 "autotune.sums" : !transform.any_op
    transform.annotate %loop_12 "autotune.from_zero" : !transform.any_op
    transform.structured.vectorize %tiled_10 : !transform.any_op
    transform.loop.unroll %loop_12 {factor = 4} : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.consumed}) {
    %ops_0 = transform.structured.match attributes{autotune.task = "matmul_512x512x512_f32"} in %module
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
