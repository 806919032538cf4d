"""Tuned payloads as libraries for other programs: C, CMake, a Python wheel, an operator of ONNX Runtime."""
