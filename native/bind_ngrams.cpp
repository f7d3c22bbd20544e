#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "sampling/ngrams.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using pyrite::Ngrams;
using Ids = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void extend(Ngrams& ngrams, const Ids& tokens) {
  for (size_t i = 0; i < tokens.shape(0); ++i) ngrams.append(tokens.data()[i]);
}

std::vector<int32_t> predict(const Ngrams& ngrams, int count) {
  if (count < 0) throw nb::value_error("a count is not negative");
  std::vector<int32_t> tokens(ngrams.length() > 0 ? size_t(count) : 0);
  if (!tokens.empty()) ngrams.predict(count, tokens.data());
  return tokens;
}

}  // namespace

void bind_ngrams(nb::module_ module) {
  nb::class_<Ngrams>(module, "Ngrams")
      .def(nb::init<>())
      .def("append", &Ngrams::append, "token"_a)
      .def("extend", &extend, "tokens"_a)
      .def("predict", &predict, "count"_a)
      .def_prop_ro("length", &Ngrams::length);
}
