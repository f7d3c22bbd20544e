// The machine's limits, measured: one core's share of each, on the thread that calls.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>

#include "probe/limits.h"

namespace nb = nanobind;

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

constexpr int64_t kMostWork = int64_t(1) << 40;

uint64_t read_all(Bytes data) {
  nb::gil_scoped_release released;
  return pyrite::read_all(data.data(), data.shape(0));
}

int64_t work(int64_t (*probe)(int64_t, int64_t*), int64_t count) {
  if (count < 0 || count > kMostWork) throw nb::value_error("count must be from 0 to 2^40");
  nb::gil_scoped_release released;
  int64_t done = 0;
  volatile int64_t kept = probe(count, &done);
  (void)kept;
  return done;
}

}  // namespace

void bind_probe(nb::module_ module) {
  module.def("read_all", &read_all, nb::arg("data"));
  module.def("float_multiply_adds",
             [](int64_t count) { return work(&pyrite::float_multiply_adds, count); });
  module.def("byte_multiply_adds",
             [](int64_t count) { return work(&pyrite::byte_multiply_adds, count); });
  module.def("float_instructions", &pyrite::float_instructions);
  module.def("byte_instructions", &pyrite::byte_instructions);
}
