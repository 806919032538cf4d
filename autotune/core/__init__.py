"""The nouns and the arithmetic: frozen data that pickles, hashes and imports without MLIR; no file, no clock."""
