#pragma once
// Rows of float32 into blocks of a weight type, by several threads. The bytes depend on the values
// and the importance alone, not on the threads or the instruction set.

#include <cstddef>
#include <cstdint>

#include "quantize/table.h"

namespace pyrite {

// The quantizers of the instruction set that a KernelTable is named for.
const QuantizerTable& quantizers_of(const char* isa);

// Null for a type that nothing is quantized to.
const Quantizer* quantizer_of(const QuantizerTable& table, WeightType type);

struct Job {
  const QuantizerTable& table;
  const Quantizer& quantizer;
  size_t columns;           // a multiple of the type's block
  size_t rows;
  const float* values;      // (rows, columns)
  const float* importance;  // (columns,) positive, or null
  uint8_t* blocks;
  size_t row_bytes;
  float limit;              // a larger magnitude has no place in the type
};

// Returns -1, or the first row with a value that is not finite or beyond the limit: what was written
// is worth nothing then.
int64_t quantize_rows(const Job& job, int num_threads);

}  // namespace pyrite
