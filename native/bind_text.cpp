#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "text/strings.h"

namespace nb = nanobind;

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Starts = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Lengths = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void bind_tokenizer(nb::module_& module);
void bind_token_lists(nb::module_& module);

namespace {

int64_t scan_strings(Bytes data, size_t offset, Starts starts, Lengths lengths) {
  if (starts.shape(0) != lengths.shape(0)) throw nb::value_error("starts and lengths differ in size");
  return pyrite::scan_strings(data.data(), data.shape(0), offset, starts.shape(0), starts.data(),
                              lengths.data());
}

}  // namespace

void bind_text(nb::module_ module) {
  module.def("scan_strings", &scan_strings, nb::arg("data"), nb::arg("offset"), nb::arg("starts"),
             nb::arg("lengths"));
  bind_tokenizer(module);
  bind_token_lists(module);
}
