// Products of every type on every instruction set that is here: equal bits, and no byte touched
// outside of what the contract names. Meant to run under sanitizers; test_kernels.py has the values.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
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
};

// Exactly `size` bytes on a boundary of 64, so that a sanitizer sees the first byte past them.
struct Aligned {
  explicit Aligned(size_t size)
      : bytes(static_cast<uint8_t*>(std::aligned_alloc(64, (size + 63) / 64 * 64)), std::free) {}
  uint8_t* data() const { return bytes.get(); }
  std::unique_ptr<uint8_t, void (*)(void*)> bytes;
};

// Bits whose float16 and float32 readings are finite: exponents stay low.
std::vector<uint8_t> random_rows(size_t size, std::mt19937& random) {
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = uint8_t(random() & 0x3b);
  return bytes;
}

struct Case {
  WeightType type;
  int rows, columns, num_activations, planes;
};

struct Weights {
  Aligned packed;
  PackedMatrix matrix;
};

Weights packed_weights(const Case& it, std::mt19937& random) {
  const WeightTraits traits = traits_of(it.type);
  const size_t row_bytes = size_t(it.columns / traits.file_columns) * traits.file_bytes;
  const std::vector<uint8_t> source = random_rows(row_bytes * size_t(it.rows), random);
  const int panels = (it.rows + kPanelRows - 1) / kPanelRows;
  const size_t panel_bytes = packed_panel_bytes(it.type, it.columns);
  Weights weights{Aligned(panel_bytes * size_t(panels)), {}};
  pack_panels(it.type, it.rows, it.columns, source.data(), 0, panels, weights.packed.data());
  weights.matrix = {it.type, it.rows, it.columns, panel_bytes, weights.packed.data()};
  return weights;
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

void check_case(const Case& it) {
  std::mt19937 random(7);
  const Weights weights = packed_weights(it, random);
  std::normal_distribution<float> gaussian;
  std::vector<float> x(size_t(it.num_activations) * size_t(it.columns));
  for (float& value : x) value = gaussian(random);
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
  std::vector<float> row(size_t(it.columns));
  unpack_row(weights.matrix, it.rows - 1, row.data());
}

void check_choice() {
  const char* error = nullptr;
  CHECK(kernel_table("scalar", &error) != nullptr);
  CHECK(kernel_table("", &error) == kernel_table(nullptr, &error));
  CHECK(kernel_table("mmx", &error) == nullptr && error != nullptr);
}

}  // namespace

int main() {
  check_choice();
  for (const WeightType type : kTypes) {
    for (const int planes : {1, 2}) {
      check_case({type, 33, 256, 23, planes});
      check_case({type, 1, 768, 1, planes});
    }
    if (traits_of(type).file_columns <= 32) check_case({type, 17, 96, 5, 2});
    if (traits_of(type).is_float()) check_case({type, 17, 24, 5, 2});
  }
}
