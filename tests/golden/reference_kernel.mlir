
  func.func @fma(%out: memref<16xf32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant 20000 : index
    %x = vector.load %out[%c0] : memref<16xf32>, vector<16xf32>
    %s0 = arith.constant dense<0.5> : vector<16xf32>
    %s1 = arith.constant dense<1.5> : vector<16xf32>
    %s2 = arith.constant dense<2.5> : vector<16xf32>
    %s3 = arith.constant dense<3.5> : vector<16xf32>
    %s4 = arith.constant dense<4.5> : vector<16xf32>
    %s5 = arith.constant dense<5.5> : vector<16xf32>
    %s6 = arith.constant dense<6.5> : vector<16xf32>
    %s7 = arith.constant dense<7.5> : vector<16xf32>
    %s8 = arith.constant dense<8.5> : vector<16xf32>
    %s9 = arith.constant dense<9.5> : vector<16xf32>
    %s10 = arith.constant dense<10.5> : vector<16xf32>
    %s11 = arith.constant dense<11.5> : vector<16xf32>
    %r:12 = scf.for %k = %c0 to %n step %c1 iter_args(%a0 = %s0, %a1 = %s1, %a2 = %s2, %a3 = %s3, %a4 = %s4, %a5 = %s5, %a6 = %s6, %a7 = %s7, %a8 = %s8, %a9 = %s9, %a10 = %s10, %a11 = %s11) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
      %b0 = math.fma %a0, %x, %x : vector<16xf32>
      %b1 = math.fma %a1, %x, %x : vector<16xf32>
      %b2 = math.fma %a2, %x, %x : vector<16xf32>
      %b3 = math.fma %a3, %x, %x : vector<16xf32>
      %b4 = math.fma %a4, %x, %x : vector<16xf32>
      %b5 = math.fma %a5, %x, %x : vector<16xf32>
      %b6 = math.fma %a6, %x, %x : vector<16xf32>
      %b7 = math.fma %a7, %x, %x : vector<16xf32>
      %b8 = math.fma %a8, %x, %x : vector<16xf32>
      %b9 = math.fma %a9, %x, %x : vector<16xf32>
      %b10 = math.fma %a10, %x, %x : vector<16xf32>
      %b11 = math.fma %a11, %x, %x : vector<16xf32>
      scf.yield %b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7, %b8, %b9, %b10, %b11 : vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>
    }
    %t1 = arith.addf %r#0, %r#1 : vector<16xf32>
    %t2 = arith.addf %t1, %r#2 : vector<16xf32>
    %t3 = arith.addf %t2, %r#3 : vector<16xf32>
    %t4 = arith.addf %t3, %r#4 : vector<16xf32>
    %t5 = arith.addf %t4, %r#5 : vector<16xf32>
    %t6 = arith.addf %t5, %r#6 : vector<16xf32>
    %t7 = arith.addf %t6, %r#7 : vector<16xf32>
    %t8 = arith.addf %t7, %r#8 : vector<16xf32>
    %t9 = arith.addf %t8, %r#9 : vector<16xf32>
    %t10 = arith.addf %t9, %r#10 : vector<16xf32>
    %total = arith.addf %t10, %r#11 : vector<16xf32>
    vector.store %total, %out[%c0] : memref<16xf32>, vector<16xf32>
    return
  }