// Quantizing of rows. Checks names, shapes and bounds.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "bind_released.h"
#include "kernels/table.h"
#include "quantize/quantize.h"

namespace nb = nanobind;
using namespace pyrite;

namespace {

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutBytes = nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const std::string& message) {
  if (!condition) throw nb::value_error(message.c_str());
}

const QuantizerTable& table_named(const std::string& isa) {
  const char* error = "";
  const KernelTable* kernels = kernel_table(isa.c_str(), &error);
  require(kernels != nullptr, isa + ": " + error);
  return quantizers_of(kernels->isa);
}

// Bytes of a row, or an error.
size_t row_bytes(const Quantizer& quantizer, const std::string& name, size_t columns) {
  const size_t multiple = size_t(column_multiple(quantizer.type));
  require(columns > 0 && columns % multiple == 0,
          "columns of " + name + " must be a multiple of " + std::to_string(multiple));
  return columns * size_t(quantizer.tile_bytes) / size_t(quantizer.tile_columns);
}

int64_t quantize(const std::string& isa, const std::string& name, Matrix values,
                 std::optional<Vector> importance, OutBytes out, int num_threads, float limit) {
  const QuantizerTable& table = table_named(isa);
  WeightType type{};
  const bool known = weight_type_of(name.c_str(), &type);
  const Quantizer* quantizer = known ? quantizer_of(table, type) : nullptr;
  require(quantizer != nullptr, name + " is not a type that is quantized to");
  require(num_threads >= 1 && num_threads <= 1024, "num_threads must be 1 to 1024");
  const size_t rows = values.shape(0), columns = values.shape(1);
  const size_t bytes = row_bytes(*quantizer, name, columns);
  require(out.shape(0) == rows && out.shape(1) == bytes,
          "out must have " + std::to_string(bytes) + " bytes for each row");
  require(!importance || importance->shape(0) == columns, "importance must be one for each column");
  const float* weights = importance ? importance->data() : nullptr;
  Released release;
  return quantize_rows({table, *quantizer, columns, rows, values.data(), weights, out.data(), bytes,
                        limit},
                       num_threads);
}

std::vector<std::string> type_names(const std::vector<std::string>& names) {
  const QuantizerTable& table = table_named("");
  std::vector<std::string> found;
  for (const std::string& name : names) {
    WeightType type{};
    if (weight_type_of(name.c_str(), &type) && quantizer_of(table, type)) found.push_back(name);
  }
  return found;
}

}  // namespace

void bind_quantize(nb::module_ module) {
  module.def("quantized_types", &type_names, nb::arg("names"));
  module.def("quantize_rows", &quantize, nb::arg("isa"), nb::arg("type"), nb::arg("values"),
             nb::arg("importance").none(), nb::arg("out"), nb::arg("num_threads"), nb::arg("limit"));
}
