#define PYRITE_ISA neon
#include "quantize/isa.inl"
