// Products of every type on every instruction set that is here: the sums that the weights' own values
// give, equal bits, and no byte touched outside of what the contract names. Meant to run under
// sanitizers, and under emulation of processors that are not here. PYRITE_TEST_ISAS, when set, names
// the instruction sets that must be.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "kernels/layout.h"
#include "kernels/table.h"

using namespace pyrite;

namespace {

constexpr WeightType kTypes[] = {
    WeightType::F32,  WeightType::F16,  WeightType::BF16, WeightType::Q4_0,   WeightType::Q4_1,
    WeightType::Q5_0, WeightType::Q5_1, WeightType::Q8_0, WeightType::Q2_K,   WeightType::Q3_K,
    WeightType::Q4_K, WeightType::Q5_K, WeightType::Q6_K, WeightType::IQ4_NL, WeightType::IQ4_XS,
    WeightType::IQ1_S, WeightType::IQ1_M, WeightType::IQ2_XXS, WeightType::IQ2_XS,
    WeightType::IQ2_S, WeightType::IQ3_XXS, WeightType::IQ3_S, WeightType::TQ1_0,
    WeightType::TQ2_0, WeightType::MXFP4, WeightType::NVFP4, WeightType::Q1_0, WeightType::Q2_0,
    WeightType::E4M3, WeightType::E5M2,
};

// Exactly `size` bytes on a boundary of 64, so that a sanitizer sees the first byte past them.
struct Aligned {
  explicit Aligned(size_t size)
      : bytes(static_cast<uint8_t*>(std::aligned_alloc(64, (size + 63) / 64 * 64)), std::free) {}
  uint8_t* data() const { return bytes.get(); }
  std::unique_ptr<uint8_t, void (*)(void*)> bytes;
};

enum class Fill { kRandom, kZeros, kOnes };

// Where a file block keeps its float16.
int halves_place(WeightType type) {
  switch (type) {
    case WeightType::Q2_K: return 80;
    case WeightType::Q3_K: return 108;
    case WeightType::Q6_K: return 208;
    case WeightType::TQ1_0: return 52;
    case WeightType::TQ2_0: return 64;
    default: return 0;
  }
}

// Makes the scales of a file block 1.
void put_scales(WeightType type, uint8_t* block) {
  const int num_halves = traits_of(type).num_halves;
  for (int i = 0; i < num_halves; ++i) {
    block[halves_place(type) + 2 * i] = 0;
    block[halves_place(type) + 2 * i + 1] = 0x3c;
  }
  if (type == WeightType::MXFP4) block[0] = 128;
  if (type == WeightType::IQ1_M) {
    constexpr uint8_t kHighest[] = {0x00, 0x00, 0xc0, 0x30};
    for (int i = 0; i < 4; ++i) block[49 + 2 * i] = (block[49 + 2 * i] & 15) | kHighest[i];
  }
}

// Of 8-bit floats: 0.5, 1, 1.5 and so on.
void put_float_scales(std::vector<uint8_t>& bytes) {
  const size_t block_bytes = size_t(traits_of(WeightType::E4M3).file_bytes);
  for (size_t block = 0; block < bytes.size(); block += block_bytes) {
    const float scale = 0.5f * float(1 + block / block_bytes % 7);
    std::memcpy(bytes.data() + block, &scale, sizeof scale);
  }
}

// A file's blocks: any bits of codes and steps, with the factor 1. Floats have low exponents.
std::vector<uint8_t> file_rows(WeightType type, size_t size, Fill fill, std::mt19937& random) {
  const WeightTraits traits = traits_of(type);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) {
    byte = fill == Fill::kRandom ? uint8_t(random()) : uint8_t(fill == Fill::kZeros ? 0 : 0xff);
    if (traits.is_float()) byte &= 0x3b;
  }
  if (traits.is_scaled_float()) put_float_scales(bytes);
  if (traits.is_float()) return bytes;
  for (size_t block = 0; block < size; block += size_t(traits.file_bytes)) {
    put_scales(type, bytes.data() + block);
  }
  return bytes;
}

struct Case {
  WeightType type;
  int rows, columns, num_activations, planes;
  Fill fill = Fill::kRandom;
};

struct Weights {
  Aligned packed;
  PackedMatrix matrix;
};

Weights packed_weights(const Case& it, std::mt19937& random) {
  const WeightTraits traits = traits_of(it.type);
  const size_t row_bytes = size_t(it.columns / traits.file_columns) * traits.file_bytes;
  const auto source = file_rows(it.type, row_bytes * size_t(it.rows), it.fill, random);
  const int panels = (it.rows + kPanelRows - 1) / kPanelRows;
  const size_t panel_bytes = packed_panel_bytes(it.type, it.columns);
  Weights weights{Aligned(panel_bytes * size_t(panels)), {}};
  pack_panels(it.type, it.rows, it.columns, source.data(), 0, panels, weights.packed.data());
  weights.matrix = {it.type, it.rows, it.columns, panel_bytes, weights.packed.data()};
  return weights;
}

// Whole numbers, the first of a block the largest that its planes hold: its scale is 1, and nothing
// is rounded. The last row has the largest everywhere, of either sign.
std::vector<float> whole_activations(const Case& it, std::mt19937& random) {
  const int limit = it.planes == 2 ? 32639 : 127;
  std::uniform_int_distribution<int> any(-limit, limit);
  std::vector<float> x(size_t(it.num_activations) * size_t(it.columns));
  for (size_t i = 0; i < x.size(); ++i) {
    const int column = int(i % size_t(it.columns));
    const bool last = i / size_t(it.columns) + 1 == size_t(it.num_activations);
    const int extreme = column / kBlock % 2 ? -limit : limit;
    x[i] = float(last || column % kBlock == 0 ? extreme : any(random));
  }
  return x;
}

std::vector<float> product(const KernelTable& table, const Case& it, const PackedMatrix& matrix,
                           const std::vector<float>& x, int first_row, int num_rows) {
  const uint32_t forms = table.activation_forms(it.type, it.planes);
  const size_t row_bytes = table.activation_bytes(it.columns, it.planes, forms);
  const Aligned rows(row_bytes * size_t(it.num_activations));
  for (int row = 0; row < it.num_activations; ++row) {
    table.prepare_row(x.data() + size_t(row) * size_t(it.columns), it.columns, it.planes, forms,
                      rows.data() + size_t(row) * row_bytes);
  }
  const int panels = (it.rows + kPanelRows - 1) / kPanelRows;
  std::vector<float> out(size_t(num_rows) * size_t(it.rows));
  table.matmul(matrix, 0, panels, {it.columns, it.planes, forms, row_bytes, rows.data()}, first_row,
               num_rows, out.data(), size_t(it.rows));
  return out;
}

bool same(const std::vector<float>& a, const float* b) {
  return std::memcmp(a.data(), b, a.size() * sizeof(float)) == 0;
}

struct Sum {
  double value = 0;
  double size = 0;  // of magnitudes
};

Sum exact_sum(const float* x, const std::vector<float>& weights) {
  Sum sum;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double product = double(x[i]) * double(weights[i]);
    sum.value += product;
    sum.size += std::fabs(product);
  }
  return sum;
}

// Against sums in float64, where each product of whole numbers is exact. A kernel rounds a step's sum
// once, and the partial sum of magnitudes at each of its one or two additions a step; with an offset
// its parts are as large as the offset, which four times the largest weight bounds.
void check_values(const Case& it, const PackedMatrix& matrix, const std::vector<float>& x,
                  const std::vector<float>& found) {
  const size_t columns = size_t(it.columns);
  std::vector<float> weights(columns);
  const int steps = traits_of(it.type).is_float() ? it.columns : it.columns / 16;
  for (int output = 0; output < it.rows; ++output) {
    unpack_row(matrix, output, weights.data());
    const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
    const std::vector<float> bound(columns, 4 * std::max(-*low, *high));
    for (int row = 0; row < it.num_activations; ++row) {
      const float* own = x.data() + size_t(row) * columns;
      const Sum sum = exact_sum(own, weights);
      const double size = sum.size + exact_sum(own, bound).size;
      const double value = found[size_t(row) * size_t(it.rows) + size_t(output)];
      CHECK(std::fabs(value - sum.value) <= (2 * steps + 4) * 0x1p-24 * size);
    }
  }
}

void check_case(const Case& it) {
  std::mt19937 random(7);
  const Weights weights = packed_weights(it, random);
  const std::vector<float> x = whole_activations(it, random);
  std::vector<float> first;
  for (const char* name : kIsaNames) {
    const char* error = nullptr;
    const KernelTable* table = kernel_table(name, &error);
    if (table == nullptr) continue;
    const auto all = product(*table, it, weights.matrix, x, 0, it.num_activations);
    if (first.empty()) first = all;
    CHECK(same(all, first.data()));
    const int last = it.num_activations - 1;
    const auto alone = product(*table, it, weights.matrix, x, last, 1);
    CHECK(same(alone, first.data() + size_t(last) * size_t(it.rows)));
  }
  check_values(it, weights.matrix, x, first);
}

// One block under one step: the kernel's only rounding is that of the exact sum.
void check_exact_sums(WeightType type, int planes, Fill fill) {
  const Case it = {type, 16, 32, 9, planes, fill};
  std::mt19937 random(8);
  const Weights weights = packed_weights(it, random);
  const std::vector<float> x = whole_activations(it, random);
  std::vector<float> row(32);
  const char* error = nullptr;
  for (const char* name : kIsaNames) {
    const KernelTable* table = kernel_table(name, &error);
    if (table == nullptr) continue;
    const auto found = product(*table, it, weights.matrix, x, 0, it.num_activations);
    for (int output = 0; output < it.rows; ++output) {
      unpack_row(weights.matrix, output, row.data());
      for (int r = 0; r < it.num_activations; ++r) {
        const double sum = exact_sum(x.data() + r * 32, row).value;
        CHECK(found[size_t(r * it.rows + output)] == float(sum));
      }
    }
  }
}

std::string present() {
  std::string names;
  for (const char* name : kIsaNames) {
    const char* error = nullptr;
    const KernelTable* table = kernel_table(name, &error);
    if (table == nullptr) continue;
    CHECK(std::strcmp(table->isa, name) == 0);
    names += (names.empty() ? "" : " ") + std::string(name);
  }
  return names;
}

void check_choice() {
  const char* error = nullptr;
  CHECK(kernel_table("scalar", &error) != nullptr);
  CHECK(kernel_table("", &error) == kernel_table(nullptr, &error));
  CHECK(kernel_table("mmx", &error) == nullptr && error != nullptr);
  const std::string names = present();
  std::printf("instruction sets: %s\n", names.c_str());
  if (const char* wanted = std::getenv("PYRITE_TEST_ISAS")) CHECK(names == wanted);
}

}  // namespace

int main() {
  check_choice();
  for (const WeightType type : kTypes) {
    const WeightTraits traits = traits_of(type);
    for (const int planes : {1, 2}) {
      for (int rows = 1; rows <= 9; ++rows) check_case({type, 33, 256, rows, planes});
      check_case({type, 33, 512, 23, planes});
      check_case({type, 1, 768, 1, planes});
      for (const Fill fill : {Fill::kZeros, Fill::kOnes}) {
        check_case({type, 17, 256, 5, planes, fill});
        if (traits.file_columns == 32 && !traits.has_offset()) check_exact_sums(type, planes, fill);
      }
      if (traits.file_columns == 32 && !traits.has_offset()) {
        check_exact_sums(type, planes, Fill::kRandom);
      }
    }
    if (traits.file_columns <= 32) check_case({type, 17, 96, 5, 2});
    if (traits.file_columns == 1) check_case({type, 17, 24, 5, 2});
    if (traits.is_scaled_float()) check_case({type, 17, 384, 15, 2});
  }
}
