#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <utility>

#include "bind_arrays.h"
#include "bind_released.h"
#include "text/token_lists.h"

namespace nb = nanobind;

using pyrite::StringList;
using pyrite::TokenNames;

namespace {

template <class T>
using Array = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
using OwnedTable = std::tuple<Array<uint8_t>, Array<int64_t>, Array<int32_t>>;

OwnedTable table_of(StringList list) {
  return {owned(std::move(list.bytes)), owned(std::move(list.starts)),
          owned(std::move(list.lengths))};
}

std::tuple<nb::bytes, std::optional<TokenNames>, std::optional<OwnedTable>> read_tokenizer_json(
    const Vector<uint8_t>& text, size_t most) {
  pyrite::TokenizerJson file;
  {
    Released released;
    file = pyrite::read_tokenizer_json(text.data(), text.shape(0), most);
  }
  std::optional<OwnedTable> merges;
  if (file.merges) merges = table_of(std::move(*file.merges));
  return {nb::bytes(file.rest.data(), file.rest.size()), std::move(file.names), std::move(merges)};
}

TokenNames numbered_names(const Table& names) { return TokenNames::numbered(strings(names)); }

OwnedTable table_of_names(const TokenNames& names) { return table_of(names.names().all()); }

int64_t find_name(const TokenNames& names, const nb::bytes& name) {
  return names.find({name.c_str(), name.size()});
}

Array<int64_t> numbers_of(const TokenNames& names) { return owned(names.numbers()); }

Array<uint8_t> made_names(const Table& merges, const Table& names) {
  return owned(pyrite::made_names(strings(merges), strings(names)));
}

}  // namespace

void bind_token_lists(nb::module_& module) {
  nb::class_<TokenNames>(module, "TokenNames")
      .def_static("numbered", &numbered_names, nb::arg("names"))
      .def("find", &find_name, nb::arg("name"))
      .def("table", &table_of_names)
      .def("numbers", &numbers_of)
      .def("__len__", &TokenNames::size);
  module.def("read_tokenizer_json", &read_tokenizer_json, nb::arg("text"), nb::arg("most"));
  module.def("made_names", &made_names, nb::arg("merges"), nb::arg("names"));
}
