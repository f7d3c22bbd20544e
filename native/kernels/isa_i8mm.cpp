#define PYRITE_ISA i8mm
#include "kernels/isa.inl"
