module attributes {transform.with_named_sequence, autotune.precision = {attention_2x64x32_e79da1 = "tile_bf16"}} {
  // attention_2x64x32_e79da1 for avx512
  // fuse = True
  // rows = 32
  // vectors = 4
  // hidden = skipped
  // tile_n_1 = 0
  // tile_k_1 = 0
  // register_order_1 = nm
  // register_m_1 = 32
  // register_n_1 = 2
  // vector_width_1 = 16
  // unroll_k_1 = 1
  // pack_b_1 = panels
  // tile_n_2 = 0
  // tile_k_2 = 0
  // register_order_2 = nm
  // register_m_2 = 32
  // register_n_2 = 2
  // vector_width_2 = 16
  // unroll_k_2 = 1
  // pack_b_2 = panels
  // math = polynomial
  transform.named_sequence @task_0(%op: !transform.any_op {transform.consumed}) {
    %function_0 = transform.get_parent_op %op {isolated_from_above} : (!transform.any_op) -> !transform.any_op
    %producer_0 = transform.get_producer_of_operand %op[0] : (!transform.any_op) -> !transform.any_op
    %producer_1 = transform.get_producer_of_operand %op[1] : (!transform.any_op) -> !transform.any_op
    %producer_2 = transform.get_producer_of_operand %producer_1[1] : (!transform.any_op) -> !transform.any_op
    %producer_3 = transform.get_producer_of_operand %producer_0[0] : (!transform.any_op) -> !transform.any_op
    %producer_4 = transform.get_producer_of_operand %producer_3[0] : (!transform.any_op) -> !transform.any_op
    %producer_5 = transform.get_producer_of_operand %producer_4[1] : (!transform.any_op) -> !transform.any_op
    %producer_6 = transform.get_producer_of_operand %producer_5[1] : (!transform.any_op) -> !transform.any_op
    %producer_7 = transform.get_producer_of_operand %producer_4[0] : (!transform.any_op) -> !transform.any_op
    %producer_8 = transform.get_producer_of_operand %producer_7[0] : (!transform.any_op) -> !transform.any_op
    %producer_9 = transform.get_producer_of_operand %producer_8[0] : (!transform.any_op) -> !transform.any_op
    %producer_10 = transform.get_producer_of_operand %producer_9[0] : (!transform.any_op) -> !transform.any_op
    // blocks of rows; what feeds them is computed where it is used
    %rows_0 = transform.tune.knob<"rows"> = 32 from options = [1, 2, 4, 8, 16, 32, 64] -> !transform.param<i64>
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
    transform.annotate %loop_11 "autotune.row_blocks" : !transform.any_op
    // region of 32 x 64 x 16 (m x n x k)
    %tiled_1, %loop_12 = transform.structured.tile_using_for %fused_8 tile_sizes [0, 32, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.annotate %loop_12 "autotune.hidden" : !transform.any_op
    // region of 32 x 32 x 32 (m x n x k)
    %tiled_2, %loop_13 = transform.structured.tile_using_for %fused_10 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %tiled_2 : !transform.any_op
    %tiled_3, %loop_14 = transform.structured.tile_using_for %fused_7 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %tiled_3 : !transform.any_op
    %tiled_4, %loop_15 = transform.structured.tile_using_for %fused_5 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %tiled_4 : !transform.any_op
    %tiled_5, %loop_16 = transform.structured.tile_using_for %fused_4 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %tiled_5 : !transform.any_op
    transform.annotate %fused_3 "autotune.hidden" : !transform.any_op
    %tiled_6, %loop_17 = transform.structured.tile_using_for %fused_1 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %tiled_6 : !transform.any_op
    %tiled_7, %loop_18 = transform.structured.tile_using_for %tiled_0 tile_sizes [1, 0] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.structured.vectorize %tiled_7 : !transform.any_op
    transform.annotate %fused_0 "autotune.hidden" : !transform.any_op
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
