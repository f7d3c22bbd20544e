#define PYRITE_ISA dotprod
#include "kernels/isa.inl"
