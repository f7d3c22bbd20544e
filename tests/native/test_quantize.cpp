// Quantizers of every type on every instruction set that is here: buffers of the exact size (for a
// sanitizer to watch), rows that fill no tile, the same bytes everywhere, and values without a place.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "check.h"
#include "quantize/quantize.h"

using namespace pyrite;

namespace {

constexpr WeightType kTypes[] = {
    WeightType::F16,  WeightType::BF16, WeightType::Q4_0, WeightType::Q4_1,   WeightType::Q5_0,
    WeightType::Q5_1, WeightType::Q8_0, WeightType::Q2_K, WeightType::Q3_K,   WeightType::Q4_K,
    WeightType::Q5_K, WeightType::Q6_K, WeightType::IQ4_NL, WeightType::IQ4_XS};

std::vector<float> waves(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(float(i * i % 977)) * float(i % 13);
  return values;
}

std::vector<uint8_t> quantized(const QuantizerTable& table, WeightType type, size_t rows,
                               size_t columns, bool weighted, int threads) {
  const Quantizer* quantizer = quantizer_of(table, type);
  CHECK(quantizer != nullptr);
  const size_t row_bytes = columns * size_t(quantizer->tile_bytes) / size_t(quantizer->tile_columns);
  const std::vector<float> values = waves(rows * columns);
  std::vector<float> importance(columns);
  for (size_t i = 0; i < columns; ++i) importance[i] = 0.01f + float(i % 7);
  std::vector<uint8_t> out(rows * row_bytes);
  const int64_t broken = quantize_rows({table, *quantizer, columns, rows, values.data(),
                                        weighted ? importance.data() : nullptr, out.data(),
                                        row_bytes, 65504.0f},
                                       threads);
  CHECK(broken == -1);
  return out;
}

void test_type(WeightType type, size_t rows, size_t columns) {
  for (bool weighted : {false, true}) {
    const auto expected = quantized(quantizers_of("scalar"), type, rows, columns, weighted, 1);
    for (const char* isa : kIsaNames) {
      const char* error = nullptr;
      if (kernel_table(isa, &error) == nullptr) continue;
      const QuantizerTable& table = quantizers_of(isa);
      CHECK(quantized(table, type, rows, columns, weighted, 1) == expected);
      CHECK(quantized(table, type, rows, columns, weighted, 3) == expected);
    }
  }
}

void test_values_without_a_place() {
  const QuantizerTable& table = quantizers_of("scalar");
  const Quantizer& quantizer = *quantizer_of(table, WeightType::Q4_0);
  std::vector<float> values = waves(3000 * 32);
  std::vector<uint8_t> out(3000 * 18);
  const Job job = {table, quantizer, 32, 3000, values.data(), nullptr, out.data(), 18, 100.0f};
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    -std::numeric_limits<float>::infinity(), 101.0f}) {
    values[32 * 2999 + 31] = values[32 * 1234 + 5] = bad;
    for (int threads : {1, 3}) CHECK(quantize_rows(job, threads) == 1234);
  }
}

}  // namespace

int main() {
  for (WeightType type : kTypes) {
    test_type(type, 1, 256);
    test_type(type, 5, 768);
  }
  test_type(WeightType::F16, 3, 37);
  test_type(WeightType::Q8_0, 3, 32);
  test_values_without_a_place();
  return 0;
}
