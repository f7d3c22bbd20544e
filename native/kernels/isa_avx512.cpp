#define PYRITE_ISA avx512
#include "kernels/isa.inl"
