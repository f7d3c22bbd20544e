// Packing of weights, and the kernels themselves for tests and benchmarks. Checks names, shapes and
// bounds; the kernels trust them.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "bind_released.h"
#include "kernels/layout.h"
#include "kernels/limits.h"
#include "kernels/table.h"

namespace nb = nanobind;
using namespace pyrite;

namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutBytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutFloats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutMatrix = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const std::string& message) {
  if (!condition) throw nb::value_error(message.c_str());
}

const KernelTable& table_named(const std::string& isa) {
  const char* error = nullptr;
  const KernelTable* table = kernel_table(isa.c_str(), &error);
  require(table != nullptr, isa + ": " + (error ? error : ""));
  return *table;
}

struct Shape {
  WeightType type;
  int rows, columns;

  int panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  size_t panel_bytes() const { return packed_panel_bytes(type, columns); }
  size_t file_bytes() const {
    const WeightTraits traits = traits_of(type);
    return size_t(rows) * (size_t(columns) / traits.file_columns) * traits.file_bytes;
  }
};

Shape shape_of(const std::string& name, int64_t rows, int64_t columns) {
  WeightType type{};
  require(weight_type_of(name.c_str(), &type), name + " is not a type that has kernels");
  require(rows > 0 && rows < (int64_t(1) << 31) - kPanelRows, "rows must be positive 32-bit");
  require(columns > 0 && columns < int64_t(1) << 31, "columns must be positive 32-bit");
  require(columns % column_multiple(type) == 0,
          "columns of " + name + " must be a multiple of " + std::to_string(column_multiple(type)));
  return {type, int(rows), int(columns)};
}

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const char* name : kIsaNames) {
    const char* error = nullptr;
    if (kernel_table(name, &error)) names.emplace_back(name);
  }
  return names;
}

void pack(const std::string& name, int64_t rows, int64_t columns, Bytes source, int first_panel,
          int num_panels, OutBytes out) {
  const Shape shape = shape_of(name, rows, columns);
  require(first_panel >= 0 && num_panels >= 0 && first_panel <= shape.panels() - num_panels,
          "panels are out of range");
  require(source.shape(0) == shape.file_bytes(), "source must have " +
          std::to_string(shape.file_bytes()) + " bytes");
  require(out.shape(0) == shape.panel_bytes() * size_t(num_panels), "out must have " +
          std::to_string(shape.panel_bytes() * size_t(num_panels)) + " bytes");
  Released release;
  pack_panels(shape.type, shape.rows, shape.columns, source.data(), first_panel, num_panels,
              out.data());
}

PackedMatrix packed_matrix(const Shape& shape, const Bytes& packed) {
  require(packed.shape(0) == shape.panel_bytes() * size_t(shape.panels()), "packed must have " +
          std::to_string(shape.panel_bytes() * size_t(shape.panels())) + " bytes");
  require(reinterpret_cast<uintptr_t>(packed.data()) % 64 == 0, "packed must be 64-byte aligned");
  return {shape.type, shape.rows, shape.columns, shape.panel_bytes(), packed.data()};
}

void unpack(const std::string& name, int64_t rows, int64_t columns, Bytes packed, int row,
            OutFloats out) {
  const Shape shape = shape_of(name, rows, columns);
  require(row >= 0 && row < shape.rows, "row is out of range");
  require(out.shape(0) == size_t(columns), "out must have a float for each column");
  unpack_row(packed_matrix(shape, packed), row, out.data());
}

// A matrix and rows of activations that have been prepared, for one instruction set.
class Product {
 public:
  Product(const std::string& isa, const std::string& name, int64_t rows, int64_t columns,
          Bytes packed, Matrix activations, int planes)
      : table_(table_named(isa)), packed_(packed) {
    const Shape shape = shape_of(name, rows, columns);
    require(planes == 1 || planes == 2, "planes must be 1 or 2");
    require(activations.shape(1) == size_t(columns), "activations must have the matrix's columns");
    matrix_ = packed_matrix(shape, packed);
    num_rows_ = int(activations.shape(0));
    const uint32_t forms = table_.activation_forms(shape.type, planes);
    const size_t row_bytes = table_.activation_bytes(shape.columns, planes, forms);
    buffer_.resize(row_bytes * size_t(num_rows_) + 64);
    uint8_t* aligned = buffer_.data() + (64 - reinterpret_cast<uintptr_t>(buffer_.data()) % 64);
    in_ = {shape.columns, planes, forms, row_bytes, aligned};
    for (int row = 0; row < num_rows_; ++row) {
      table_.prepare_row(activations.data() + size_t(row) * size_t(columns), shape.columns, planes,
                         forms, in_.data + size_t(row) * row_bytes);
    }
  }

  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  // out[r, :] for rows [first_row, first_row + out.rows), lanes of the given panels.
  void run(OutMatrix out, int first_panel, int num_panels, int first_row, int repeats) const {
    const int panels = (matrix_.rows + kPanelRows - 1) / kPanelRows;
    require(first_panel >= 0 && num_panels >= 0 && first_panel <= panels - num_panels,
            "panels are out of range");
    require(first_row >= 0 && size_t(first_row) + out.shape(0) <= size_t(num_rows_),
            "rows are out of range");
    const int lanes = matrix_.rows - first_panel * kPanelRows;
    const int wanted = num_panels * kPanelRows < lanes ? num_panels * kPanelRows : lanes;
    require(out.shape(1) >= size_t(wanted), "out must have a column for each output");
    Released release;
    for (int i = 0; i < repeats; ++i) {
      table_.matmul(matrix_, first_panel, num_panels, in_, first_row, int(out.shape(0)), out.data(),
                    out.shape(1));
    }
  }

 private:
  const KernelTable& table_;
  Bytes packed_;  // keeps the weights alive
  PackedMatrix matrix_{};
  Activations in_{};
  int num_rows_ = 0;
  std::vector<uint8_t> buffer_;
};

nb::tuple measure_bandwidth(int num_threads, size_t num_bytes) {
  require(num_threads > 0 && num_threads <= 1024, "threads must be 1 to 1024");
  require(num_bytes >= size_t(num_threads) * 4096, "too few bytes for so many threads");
  ReadSpeed speed;
  {
    Released release;
    speed = read_bandwidth(num_threads, num_bytes);
  }
  return nb::make_tuple(speed.bytes_per_second, speed.way);
}

const char* name_of(Factors factors) {
  if (factors == Factors::kFloats) return "floats";
  return factors == Factors::kWords ? "words" : "bytes";
}

nb::list measure_peaks(const std::string& isa, int num_threads) {
  require(num_threads > 0 && num_threads <= 1024, "threads must be 1 to 1024");
  const char* chosen = table_named(isa).isa;
  std::vector<Peak> peaks;
  {
    Released release;
    peaks = compute_peaks(chosen, num_threads);
  }
  nb::list found;
  for (const Peak& peak : peaks) {
    found.append(nb::make_tuple(peak.isa, peak.instructions, name_of(peak.factors), peak.bits,
                                peak.products_per_second));
  }
  return found;
}

}  // namespace

void bind_kernels(nb::module_ module) {
  module.def("isa_names", &isa_names);
  module.def("chosen_isa", [](const std::string& name) { return table_named(name).isa; },
             nb::arg("name") = "");
  module.def("packed_panel_bytes", [](const std::string& name, int64_t columns) {
    return shape_of(name, 1, columns).panel_bytes();
  }, nb::arg("type"), nb::arg("columns"));
  module.def("pack_panels", &pack, nb::arg("type"), nb::arg("rows"), nb::arg("columns"),
             nb::arg("source"), nb::arg("first_panel"), nb::arg("num_panels"), nb::arg("out"));
  module.def("unpack_row", &unpack, nb::arg("type"), nb::arg("rows"), nb::arg("columns"),
             nb::arg("packed"), nb::arg("row"), nb::arg("out"));
  module.def("read_bandwidth", &measure_bandwidth, nb::arg("num_threads"), nb::arg("num_bytes"));
  module.def("compute_peaks", &measure_peaks, nb::arg("isa"), nb::arg("num_threads"));
  nb::class_<Product>(module, "Product")
      .def(nb::init<const std::string&, const std::string&, int64_t, int64_t, Bytes, Matrix, int>(),
           nb::arg("isa"), nb::arg("type"), nb::arg("rows"), nb::arg("columns"), nb::arg("packed"),
           nb::arg("activations"), nb::arg("planes"))
      .def("run", &Product::run, nb::arg("out"), nb::arg("first_panel"), nb::arg("num_panels"),
           nb::arg("first_row") = 0, nb::arg("repeats") = 1);
}
