"""Smooth trees: value and gradient, on the CPU, by array functions and by fused CUDA kernels."""
