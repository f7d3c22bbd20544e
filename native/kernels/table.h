#pragma once
// The contract between the executor and the kernels: packed weights in, sums out. One KernelTable
// per instruction set holds the same functions, and for the same row each gives the same bits
// whatever rows or panels are computed beside it: sums go over blocks of 32 columns in ascending
// order, one lane per output, exact integers inside a block.

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/recurrence.h"
#include "kernels/rows.h"

namespace pyrite {

enum class WeightType : uint8_t {
  F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS,
  IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S,
  TQ1_0, TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0, E4M3, E5M2,
};

// The type that files and pyrite.quant.formats call `name`. Returns whether there is one.
bool weight_type_of(const char* name, WeightType* type);
// Columns of such a matrix are a multiple of this.
int column_multiple(WeightType type);

// Outputs are packed in panels of 16 rows, interleaved so that a vector lane is one output: four
// adjacent columns of the 16 rows are 64 adjacent bytes once expanded to 8 bits.
constexpr int kPanelRows = 16;
constexpr int kBlock = 32;  // columns under one activation scale

struct PackedMatrix {
  WeightType type;
  int32_t rows;      // outputs; the last panel is filled up with zeros
  int32_t columns;   // inputs
  size_t panel_bytes;
  const uint8_t* data;  // 64-byte aligned
};

// Packing is portable code and gives the same bytes on every machine.
size_t packed_panel_bytes(WeightType type, int columns);
// Packs panels [first_panel, first_panel + num_panels) of the file's row-major data into
// `destination`, where the first of them goes. Calls for different panels may run at once.
void pack_panels(WeightType type, int rows, int columns, const uint8_t* source, int first_panel,
                 int num_panels, uint8_t* destination);
// One row as float32 (columns), for embedding tables.
void unpack_row(const PackedMatrix& matrix, int row, float* out);

// What a row of activations is turned into before a product. A kernel says which forms it reads,
// and a row that feeds several matrices is prepared once with all of them.
enum Form : uint32_t {
  kFloats = 1,  // float32 as it is
  kPlanes = 2,  // 8-bit planes, a scale and sums for each block
  kWords = 4,   // the same integers as 16-bit words
  kBytes = 8,   // one plane, with sums of pairs of columns
};

struct Activations {
  int32_t columns;
  int32_t planes;  // 2: at least 15 bits; 1: 8 bits ("fast")
  uint32_t forms;
  size_t row_bytes;
  uint8_t* data;  // rows at data + row * row_bytes, 64-byte aligned
};

struct KernelTable {
  const char* isa;

  uint32_t (*activation_forms)(WeightType type, int planes);
  size_t (*activation_bytes)(int columns, int planes, uint32_t forms);
  // Prepares one row of `columns` floats.
  void (*prepare_row)(const float* row, int columns, int planes, uint32_t forms, uint8_t* out);
  // out[r * out_stride + 16 * p + lane] for num_rows rows of `activations` from first_row on and
  // num_panels panels from first_panel on; lanes past matrix.rows are not written.
  void (*matmul)(const PackedMatrix& matrix, int first_panel, int num_panels,
                 const Activations& activations, int first_row, int num_rows, float* out,
                 size_t out_stride);

  // The kTable of rows.inl, attention.inl and recurrence.inl, which a file of one instruction set
  // includes inside of its namespace.
  RowKernels rows;
  AttentionKernels attention;
  RecurrentKernels recurrence;
};

// Every name that `kernel_table` knows, whether this processor has it or not; of each processor the
// better ones last.
inline constexpr const char* kIsaNames[] = {"scalar",  "avx2", "avxvnni", "avx512", "amx",
                                            "neon", "dotprod", "i8mm"};

// The table of that name (PYRITE_ISA), or with an empty name the best this processor has. Null
// with a reason in `error`, which stays, when the name is unknown or the processor lacks it.
const KernelTable* kernel_table(const char* name, const char** error);

}  // namespace pyrite
