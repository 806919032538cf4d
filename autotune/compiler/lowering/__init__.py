"""From a payload and a script to the LLVM dialect: rewrites around the script, pipelines, stages."""
