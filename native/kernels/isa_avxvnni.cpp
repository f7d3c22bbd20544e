#define PYRITE_ISA avxvnni
#include "kernels/isa.inl"
