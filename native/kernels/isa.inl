// All that one instruction set has, in the order of use. An isa_*.cpp includes this inside its own
// namespace, and is compiled for its instruction set; no other file is. Nothing here may be shared
// between instruction sets, for a linker would keep one copy of it.

#include "kernels/lanes.h"

#include "kernels/rows.inl"

#include "kernels/attention_blocks.inl"

#include "kernels/attention.inl"

#include "kernels/codes.h"

#include "kernels/prepare.inl"

#include "kernels/chunk.inl"

#include "kernels/product.inl"

#include "kernels/float_product.inl"

#include "kernels/matmul.inl"
