#define PYRITE_ISA avx2
#include "kernels/isa.inl"
