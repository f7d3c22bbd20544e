#define PYRITE_ISA neon
#include "kernels/isa.inl"
