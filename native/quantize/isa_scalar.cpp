#define PYRITE_ISA scalar
#define PYRITE_PORTABLE  // plain C++, even where every processor has vectors
#include "quantize/isa.inl"
