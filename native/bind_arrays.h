#pragma once
// Arrays and tables of strings at the door to Python. Includers need nanobind/stl/tuple.h.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "text/strings.h"

template <class T>
using Vector = nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig,
                                 nanobind::device::cpu>;

// Bytes, and where each string starts in them and how long it is.
using Table = std::tuple<Vector<uint8_t>, Vector<int64_t>, Vector<int32_t>>;

inline pyrite::Strings strings(const Table& table) {
  const auto& [data, starts, lengths] = table;
  if (starts.shape(0) != lengths.shape(0)) {
    throw nanobind::value_error("starts and lengths differ in size");
  }
  const int64_t size = int64_t(data.shape(0));
  for (size_t i = 0; i < starts.shape(0); ++i) {
    const int64_t start = starts.data()[i];
    const int32_t length = lengths.data()[i];
    if (start < 0 || length < 0 || start > size || length > size - start) {
      throw nanobind::value_error("a string lies outside its buffer");
    }
  }
  return {data.data(), starts.data(), lengths.data(), starts.shape(0)};
}

template <class T>
nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>> owned(std::vector<T> values) {
  using Values = std::vector<T>;
  auto kept = std::make_unique<Values>(std::move(values));
  nanobind::capsule owner(kept.get(), [](void* p) noexcept { delete static_cast<Values*>(p); });
  Values* data = kept.release();
  return {data->data(), {data->size()}, owner};
}
