#define PYRITE_ISA avx2
#include "quantize/isa.inl"
