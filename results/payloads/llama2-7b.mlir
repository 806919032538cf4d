// Llama 2 7B (Touvron et al., 2023), one token with up to 2048 before it: 32 layers, width 4096, 32 heads, bf16 weights.
func.func @decode(
    %token: tensor<1xi32>,
    %position: tensor<1xi64> {autotune.low = 0, autotune.high = 2048},
    %keys: tensor<32x32x2048x128xf32> {autotune.role = "state"},
    %values: tensor<32x32x2048x128xf32> {autotune.role = "state"},
    %table: tensor<32000x4096xbf16> {autotune.role = "weight"},
    %norm_1: tensor<32x4096xf32> {autotune.role = "weight"},
    %qkv_weight: tensor<32x4096x12288xbf16> {autotune.role = "weight"},
    %mix_weight: tensor<32x4096x4096xbf16> {autotune.role = "weight"},
    %norm_2: tensor<32x4096xf32> {autotune.role = "weight"},
    %gate_weight: tensor<32x4096x11008xbf16> {autotune.role = "weight"},
    %up_weight: tensor<32x4096x11008xbf16> {autotune.role = "weight"},
    %down_weight: tensor<32x11008x4096xbf16> {autotune.role = "weight"},
    %norm_last: tensor<4096xf32> {autotune.role = "weight"},
    %head: tensor<4096x32000xbf16> {autotune.role = "weight"}) {
  %at = gpt.index(%position)
  %filled = gpt.shift(%at) {by = 1}
  %x = gpt.embedding(%table, %token)
  %x_out, %keys_out, %values_out = gpt.block(%x, %keys, %values) ({
  ^bb0(%layer, %x_in, %keys_in, %values_in):
    %gain_1 = gpt.layer(%norm_1, %layer)
    %qkv_here = gpt.layer(%qkv_weight, %layer)
    %mix_here = gpt.layer(%mix_weight, %layer)
    %gain_2 = gpt.layer(%norm_2, %layer)
    %gate_here = gpt.layer(%gate_weight, %layer)
    %up_here = gpt.layer(%up_weight, %layer)
    %down_here = gpt.layer(%down_weight, %layer)
    %normed = gpt.rms_norm(%x_in, %gain_1)
    %qkv = gpt.linear(%normed, %qkv_here)
    %q, %k, %v = gpt.split_heads(%qkv) {heads = 32, sequences = 1}
    %q_turned = gpt.rope(%q, %at)
    %k_turned = gpt.rope(%k, %at)
    %keys_next = gpt.cache_append(%keys_in, %k_turned, %layer, %at)
    %values_next = gpt.cache_append(%values_in, %v, %layer, %at)
    %k_past = gpt.cache_rows(%keys_next, %layer, %filled)
    %v_past = gpt.cache_rows(%values_next, %layer, %filled)
    %mixed = gpt.attention(%q_turned, %k_past, %v_past)
    %merged = gpt.merge_heads(%mixed) {sequences = 1}
    %mix = gpt.linear(%merged, %mix_here)
    %x_mixed = gpt.add(%x_in, %mix)
    %again = gpt.rms_norm(%x_mixed, %gain_2)
    %gate = gpt.linear(%again, %gate_here)
    %up = gpt.linear(%again, %up_here)
    %hidden = gpt.swiglu(%gate, %up)
    %down = gpt.linear(%hidden, %down_here)
    %x_next = gpt.add(%x_mixed, %down)
    vector.yield %x_next, %keys_next, %values_next
  }) {layers = 32}
  %last = gpt.rms_norm(%x_out, %norm_last)
  %logits = gpt.linear(%last, %head)
  return %keys_out, %values_out, %logits
}
