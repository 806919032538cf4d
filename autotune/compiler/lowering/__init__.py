"""Lower a payload and a script to the LLVM dialect: rewrites around the script, pass pipelines, stages."""
