// The rules that come with autotune: PDL (https://mlir.llvm.org/docs/Dialects/PDLOps/) and the conditions and writers of
// natives.py. What upstream's canonicalization does, or compiler/normalise, or the search for groups, is not done again:
// docs/decisions/compiler.md says which rules are not here, and why.

// One operand, one number: in a body, on tensors of arith, in a generic op, in a named op.
pdl.pattern @add_zero : benefit(10) attributes {
    autotune.before = "x + 0", autotune.after = "x", autotune.when = "the sign of a zero does not matter",
    autotune.tolerance = 0.0 : f64} {
  %args = operands
  %type = type
  %root = operation "arith.addf"(%args : !pdl.range<value>) -> (%type : !pdl.type)
  %name = attribute = "arith.addf"
  %number = attribute = 0.0 : f64
  %x = apply_native_constraint "beside"(%root, %name, %number : !pdl.operation, !pdl.attribute, !pdl.attribute) : !pdl.value
  rewrite %root {
    replace %root with (%x : !pdl.value)
  }
}

pdl.pattern @add_zero.generic : benefit(10) {
  %args = operands
  %type = type
  %root = operation "linalg.generic"(%args : !pdl.range<value>) -> (%type : !pdl.type)
  %name = attribute = "arith.addf"
  %number = attribute = 0.0 : f64
  %x = apply_native_constraint "beside"(%root, %name, %number : !pdl.operation, !pdl.attribute, !pdl.attribute) : !pdl.value
  rewrite %root {
    replace %root with (%x : !pdl.value)
  }
}

pdl.pattern @add_zero.named : benefit(10) {
  %args = operands
  %type = type
  %root = operation "linalg.add"(%args : !pdl.range<value>) -> (%type : !pdl.type)
  %name = attribute = "arith.addf"
  %number = attribute = 0.0 : f64
  %x = apply_native_constraint "beside"(%root, %name, %number : !pdl.operation, !pdl.attribute, !pdl.attribute) : !pdl.value
  rewrite %root {
    replace %root with (%x : !pdl.value)
  }
}

// Upstream does it in bodies.
pdl.pattern @times_one : benefit(10) attributes {
    autotune.before = "linalg.mul(x, 1)", autotune.after = "x", autotune.tolerance = 0.0 : f64} {
  %args = operands
  %type = type
  %root = operation "linalg.mul"(%args : !pdl.range<value>) -> (%type : !pdl.type)
  %name = attribute = "arith.mulf"
  %number = attribute = 1.0 : f64
  %x = apply_native_constraint "beside"(%root, %name, %number : !pdl.operation, !pdl.attribute, !pdl.attribute) : !pdl.value
  rewrite %root {
    replace %root with (%x : !pdl.value)
  }
}

// Upstream does it in bodies.
pdl.pattern @double_negation : benefit(10) attributes {
    autotune.before = "linalg.negf(linalg.negf(x))", autotune.after = "x", autotune.tolerance = 0.0 : f64} {
  %type = type
  %x = operand : %type
  %into = operand
  %once = operation "linalg.negf"(%x, %into : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %negative = result 0 of %once
  %other = operand
  %root = operation "linalg.negf"(%negative, %other : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  rewrite %root {
    replace %root with (%x : !pdl.value)
  }
}

// Upstream does it where both are linalg.transpose.
pdl.pattern @turned_back : benefit(10) attributes {
    autotune.before = "transpose(transpose(x))", autotune.after = "x",
    autotune.when = "the second undoes the first, and one of them is a linalg.generic", autotune.tolerance = 0.0 : f64} {
  %args = operands
  %middle = type
  %first = operation(%args : !pdl.range<value>) -> (%middle : !pdl.type)
  %turned = result 0 of %first
  %into = operand
  %type = type
  %root = operation "linalg.generic"(%turned, %into : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %x = apply_native_constraint "undoes"(%root, %first : !pdl.operation, !pdl.operation) : !pdl.value
  rewrite %root {
    replace %root with (%x : !pdl.value)
  }
}

pdl.pattern @turned_back.named : benefit(10) {
  %args = operands
  %middle = type
  %first = operation "linalg.generic"(%args : !pdl.range<value>) -> (%middle : !pdl.type)
  %turned = result 0 of %first
  %into = operand
  %type = type
  %root = operation "linalg.transpose"(%turned, %into : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %x = apply_native_constraint "undoes"(%root, %first : !pdl.operation, !pdl.operation) : !pdl.value
  rewrite %root {
    replace %root with (%x : !pdl.value)
  }
}

pdl.pattern @times_identity : benefit(10) attributes {
    autotune.before = "A I", autotune.after = "A", autotune.when = "I is a constant, A is finite",
    autotune.tolerance = 0.0 : f64} {
  %type = type
  %a = operand : %type
  %i = operand
  %zeros = operand
  %root = operation "linalg.matmul"(%a, %i, %zeros : !pdl.value, !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %first = attribute = 0 : i64
  apply_native_constraint "is_zeros"(%zeros : !pdl.value)
  apply_native_constraint "is_read_by_rows"(%root, %first : !pdl.operation, !pdl.attribute)
  apply_native_constraint "is_identity"(%i : !pdl.value)
  rewrite %root {
    replace %root with (%a : !pdl.value)
  }
}

pdl.pattern @times_identity.left : benefit(10) {
  %type = type
  %i = operand
  %b = operand : %type
  %zeros = operand
  %root = operation "linalg.matmul"(%i, %b, %zeros : !pdl.value, !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %second = attribute = 1 : i64
  apply_native_constraint "is_zeros"(%zeros : !pdl.value)
  apply_native_constraint "is_read_by_rows"(%root, %second : !pdl.operation, !pdl.attribute)
  apply_native_constraint "is_identity"(%i : !pdl.value)
  rewrite %root {
    replace %root with (%b : !pdl.value)
  }
}

// y - max(y) of y = x + c is x - max(x).
pdl.pattern @shifted_softmax : benefit(5) attributes {
    autotune.before = "softmax(x + c)", autotune.after = "softmax(x)",
    autotune.when = "c is one number a row, and the row's maximum is taken off", autotune.tolerance = 1.0e-12 : f64} {
  %args = operands
  %type = type
  %shift = operation "linalg.generic"(%args : !pdl.range<value>) -> (%type : !pdl.type)
  %y = result 0 of %shift
  %start = operand
  %rows = type
  %maximum = operation "linalg.generic"(%y, %start : !pdl.value, !pdl.value) -> (%rows : !pdl.type)
  %m = result 0 of %maximum
  %into = operand
  %root = operation "linalg.generic"(%y, %m, %into : !pdl.value, !pdl.value, !pdl.value) -> (%type : !pdl.type)
  apply_native_constraint "takes_off_rows"(%root : !pdl.operation)
  apply_native_constraint "row_maximum"(%maximum : !pdl.operation)
  %x = apply_native_constraint "shifted"(%shift : !pdl.operation) : !pdl.value
  rewrite %root {
    %first = attribute = 0 : i64
    %second = attribute = 1 : i64
    %other = apply_native_rewrite "read_instead"(%maximum, %first, %x : !pdl.operation, !pdl.attribute, !pdl.value) : !pdl.operation
    %n = result 0 of %other
    %half = apply_native_rewrite "read_instead"(%root, %first, %x : !pdl.operation, !pdl.attribute, !pdl.value) : !pdl.operation
    %whole = apply_native_rewrite "read_instead"(%half, %second, %n : !pdl.operation, !pdl.attribute, !pdl.value) : !pdl.operation
    replace %root with %whole
  }
}

// One product instead of two; the matrix stays a weight.
pdl.pattern @one_matrix : benefit(5) attributes {
    autotune.before = "A B + C B", autotune.after = "(A + C) B", autotune.when = "nothing else reads the two products",
    autotune.tolerance = 1.0e-12 : f64} {
  %left = type
  %type = type
  %a = operand : %left
  %c = operand : %left
  %b = operand
  %zeros = operand
  %others = operand
  %first = operation "linalg.matmul"(%a, %b, %zeros : !pdl.value, !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %second = operation "linalg.matmul"(%c, %b, %others : !pdl.value, !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %p = result 0 of %first
  %q = result 0 of %second
  %into = operand
  %root = operation "linalg.generic"(%p, %q, %into : !pdl.value, !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %name = attribute = "arith.addf"
  apply_native_constraint "by_element"(%root, %name : !pdl.operation, !pdl.attribute)
  apply_native_constraint "are_alike"(%first, %second : !pdl.operation, !pdl.operation)
  apply_native_constraint "is_zeros"(%zeros : !pdl.value)
  apply_native_constraint "is_zeros"(%others : !pdl.value)
  apply_native_constraint "is_used_once"(%first : !pdl.operation)
  apply_native_constraint "is_used_once"(%second : !pdl.operation)
  rewrite %root {
    %add = attribute = "arith.addf"
    %place = attribute = 0 : i64
    %sum = apply_native_rewrite "combined"(%add, %a, %c : !pdl.attribute, !pdl.value, !pdl.value) : !pdl.value
    %product = apply_native_rewrite "read_instead"(%first, %place, %sum : !pdl.operation, !pdl.attribute, !pdl.value) : !pdl.operation
    replace %root with %product
  }
}

pdl.pattern @one_matrix.named : benefit(5) {
  %left = type
  %type = type
  %a = operand : %left
  %c = operand : %left
  %b = operand
  %zeros = operand
  %others = operand
  %first = operation "linalg.matmul"(%a, %b, %zeros : !pdl.value, !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %second = operation "linalg.matmul"(%c, %b, %others : !pdl.value, !pdl.value, !pdl.value) -> (%type : !pdl.type)
  %p = result 0 of %first
  %q = result 0 of %second
  %into = operand
  %root = operation "linalg.add"(%p, %q, %into : !pdl.value, !pdl.value, !pdl.value) -> (%type : !pdl.type)
  apply_native_constraint "are_alike"(%first, %second : !pdl.operation, !pdl.operation)
  apply_native_constraint "is_zeros"(%zeros : !pdl.value)
  apply_native_constraint "is_zeros"(%others : !pdl.value)
  apply_native_constraint "is_used_once"(%first : !pdl.operation)
  apply_native_constraint "is_used_once"(%second : !pdl.operation)
  rewrite %root {
    %add = attribute = "arith.addf"
    %place = attribute = 0 : i64
    %sum = apply_native_rewrite "combined"(%add, %a, %c : !pdl.attribute, !pdl.value, !pdl.value) : !pdl.value
    %product = apply_native_rewrite "read_instead"(%first, %place, %sum : !pdl.operation, !pdl.attribute, !pdl.value) : !pdl.operation
    replace %root with %product
  }
}

pdl.pattern @common_factor : benefit(3) attributes {
    autotune.before = "a b + a c", autotune.after = "a (b + c)", autotune.when = "nothing else reads the two products",
    autotune.tolerance = 1.0e-12 : f64} {
  %type = type
  %factors = operands
  %others = operands
  %first = operation "arith.mulf"(%factors : !pdl.range<value>) -> (%type : !pdl.type)
  %second = operation "arith.mulf"(%others : !pdl.range<value>) -> (%type : !pdl.type)
  %p = result 0 of %first
  %q = result 0 of %second
  %root = operation "arith.addf"(%p, %q : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  apply_native_constraint "is_used_once"(%first : !pdl.operation)
  apply_native_constraint "is_used_once"(%second : !pdl.operation)
  %a, %b, %c = apply_native_constraint "common_factor"(%first, %second : !pdl.operation, !pdl.operation) : !pdl.value, !pdl.value, !pdl.value
  rewrite %root {
    %both = operation "arith.addf"(%b, %c : !pdl.value, !pdl.value) -> (%type : !pdl.type)
    %sum = result 0 of %both
    %product = operation "arith.mulf"(%a, %sum : !pdl.value, !pdl.value) -> (%type : !pdl.type)
    replace %root with %product
  }
}

pdl.pattern @batch_norm : benefit(5) attributes {
    autotune.before = "s conv(x, K) + t", autotune.after = "conv(x, s K) + t",
    autotune.when = "kernel and factors are constants, and nothing else reads the convolution",
    autotune.tolerance = 1.0e-12 : f64} {
  %args = operands
  %type = type
  %root = operation "linalg.generic"(%args : !pdl.range<value>) -> (%type : !pdl.type)
  %y = apply_native_constraint "folds_into"(%root : !pdl.operation) : !pdl.value
  rewrite %root {
    %folded = apply_native_rewrite "folded"(%root, %y : !pdl.operation, !pdl.value) : !pdl.operation
    replace %root with %folded
  }
}
