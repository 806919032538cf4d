"""Tuned payloads as libraries for other programs: C, CMake, a Python wheel, or an ONNX Runtime operator."""
