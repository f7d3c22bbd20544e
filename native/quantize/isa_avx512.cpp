#define PYRITE_ISA avx512
#include "quantize/isa.inl"
