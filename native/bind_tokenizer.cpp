#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/split.h"
#include "text/tokenizer.h"

namespace nb = nanobind;

using pyrite::Tokenizer;

namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<nb::numpy, int32_t, nb::ndim<1>>;

// Below this a text is encoded sooner than the interpreter lock changes hands.
constexpr size_t kLongBytes = 2048;

pyrite::Strings strings(const Vector<uint8_t>& data, const Vector<int64_t>& starts,
                        const Vector<int32_t>& lengths) {
  if (starts.shape(0) != lengths.shape(0)) throw nb::value_error("starts and lengths differ in size");
  const int64_t size = int64_t(data.shape(0));
  for (size_t i = 0; i < starts.shape(0); ++i) {
    const int64_t start = starts.data()[i];
    const int32_t length = lengths.data()[i];
    if (start < 0 || length < 0 || start > size || length > size - start) {
      throw nb::value_error("a string lies outside its buffer");
    }
  }
  return {data.data(), starts.data(), lengths.data(), starts.shape(0)};
}

// `marks` may be empty: markers are told by their types.
pyrite::TokenizerSource source(const pyrite::Strings& tokens, const Vector<int32_t>& types,
                               int32_t unknown_id, const Vector<uint8_t>& marks) {
  if (types.shape(0) != tokens.count) throw nb::value_error("types differ from tokens in number");
  if (tokens.count > size_t(INT32_MAX)) throw nb::value_error("more tokens than ids");
  if (unknown_id < -1 || unknown_id >= int64_t(tokens.count)) {
    throw nb::value_error("unknown_id is not in the vocabulary");
  }
  const size_t num_marks = marks.shape(0);
  if (num_marks != 0 && num_marks != tokens.count) {
    throw nb::value_error("marks differ from tokens in number");
  }
  return {tokens, types.data(), unknown_id, num_marks == 0 ? nullptr : marks.data()};
}

pyrite::SpacePrefix space_prefix(int32_t value) {
  if (value < 0 || value > int32_t(pyrite::SpacePrefix::kFirstUnlessSpaced)) {
    throw nb::value_error("no such space prefix");
  }
  return pyrite::SpacePrefix(value);
}

std::unique_ptr<Tokenizer> byte_pair(Vector<uint8_t> data, Vector<int64_t> starts,
                                     Vector<int32_t> lengths, Vector<int32_t> types,
                                     int32_t unknown_id, Vector<uint8_t> marks,
                                     Vector<uint8_t> merge_data, Vector<int64_t> merge_starts,
                                     Vector<int32_t> merge_lengths, const std::string& splitter,
                                     std::optional<bool> whole_word_first) {
  const pyrite::Splitter* found = pyrite::find_splitter(splitter);
  if (found == nullptr) throw nb::value_error("no such pre-tokenizer");
  const pyrite::TokenizerSource from =
      source(strings(data, starts, lengths), types, unknown_id, marks);
  const pyrite::Strings merges = strings(merge_data, merge_starts, merge_lengths);
  const bool whole = whole_word_first.value_or(found->whole_word_first);
  nb::gil_scoped_release released;
  return Tokenizer::byte_pair(from, merges, *found, whole);
}

std::unique_ptr<Tokenizer> scored_pieces(Vector<uint8_t> data, Vector<int64_t> starts,
                                         Vector<int32_t> lengths, Vector<int32_t> types,
                                         int32_t unknown_id, Vector<uint8_t> marks,
                                         Vector<float> scores, int32_t prefix) {
  if (scores.shape(0) != starts.shape(0)) throw nb::value_error("scores differ from tokens in number");
  const pyrite::TokenizerSource from =
      source(strings(data, starts, lengths), types, unknown_id, marks);
  const pyrite::SpacePrefix where = space_prefix(prefix);
  nb::gil_scoped_release released;
  return Tokenizer::sentence_piece(from, scores.data(), where);
}

std::unique_ptr<Tokenizer> merged_pieces(Vector<uint8_t> data, Vector<int64_t> starts,
                                         Vector<int32_t> lengths, Vector<int32_t> types,
                                         int32_t unknown_id, Vector<uint8_t> marks,
                                         Vector<uint8_t> merge_data, Vector<int64_t> merge_starts,
                                         Vector<int32_t> merge_lengths, int32_t prefix) {
  const pyrite::TokenizerSource from =
      source(strings(data, starts, lengths), types, unknown_id, marks);
  const pyrite::Strings merges = strings(merge_data, merge_starts, merge_lengths);
  const pyrite::SpacePrefix where = space_prefix(prefix);
  nb::gil_scoped_release released;
  return Tokenizer::sentence_piece(from, merges, where);
}

std::unique_ptr<Tokenizer> greedy(Vector<uint8_t> data, Vector<int64_t> starts,
                                  Vector<int32_t> lengths, Vector<int32_t> types,
                                  int32_t unknown_id, Vector<uint8_t> marks) {
  const pyrite::TokenizerSource from =
      source(strings(data, starts, lengths), types, unknown_id, marks);
  nb::gil_scoped_release released;
  return Tokenizer::greedy(from);
}

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> owned(std::vector<T> values) {
  using Values = std::vector<T>;
  auto kept = std::make_unique<Values>(std::move(values));
  nb::capsule owner(kept.get(), [](void* p) noexcept { delete static_cast<Values*>(p); });
  Values* data = kept.release();
  return {data->data(), {data->size()}, owner};
}

Ids encode_spans(const Tokenizer& tokenizer, nb::bytes text,
                 std::span<const pyrite::Span> spans) {
  std::vector<int32_t> ids;
  {
    std::optional<nb::gil_scoped_release> released;
    if (text.size() >= kLongBytes) released.emplace();
    const auto* bytes = static_cast<const uint8_t*>(text.data());
    tokenizer.encode(bytes, text.size(), spans, ids);
  }
  return owned(std::move(ids));
}

Ids encode(const Tokenizer& tokenizer, nb::bytes text, bool special) {
  const pyrite::Span whole = {0, text.size()};
  return encode_spans(tokenizer, text, {&whole, special ? size_t(1) : size_t(0)});
}

// `edges`: begin and end of every span that may hold control tokens, ascending. (2 * spans,)
std::vector<pyrite::Span> spans_of(const Vector<int64_t>& edges, size_t size) {
  if (edges.shape(0) % 2 != 0) throw nb::value_error("a span without an end");
  std::vector<pyrite::Span> spans;
  int64_t last = 0;
  for (size_t i = 0; i < edges.shape(0); i += 2) {
    const int64_t begin = edges.data()[i];
    const int64_t end = edges.data()[i + 1];
    if (begin < last || end < begin || end > int64_t(size)) {
      throw nb::value_error("spans must ascend and lie in the text");
    }
    spans.push_back({size_t(begin), size_t(end)});
    last = end;
  }
  return spans;
}

Ids encode_within(const Tokenizer& tokenizer, nb::bytes text, Vector<int64_t> edges) {
  return encode_spans(tokenizer, text, spans_of(edges, text.size()));
}

// Begin, end and id of every marker. (3 * markers,)
nb::ndarray<nb::numpy, int64_t, nb::ndim<1>> find_markers(const Tokenizer& tokenizer,
                                                          nb::bytes text, Vector<int64_t> edges) {
  const std::vector<pyrite::Span> spans = spans_of(edges, text.size());
  std::vector<int64_t> found;
  const auto* bytes = static_cast<const uint8_t*>(text.data());
  for (const pyrite::Marked& marked : tokenizer.find_markers(bytes, text.size(), spans)) {
    found.insert(found.end(), {int64_t(marked.begin), int64_t(marked.end), int64_t(marked.id)});
  }
  return owned(std::move(found));
}

Ids encode_between(const Tokenizer& tokenizer, nb::bytes text, bool first) {
  std::vector<int32_t> ids;
  {
    std::optional<nb::gil_scoped_release> released;
    if (text.size() >= kLongBytes) released.emplace();
    const auto* bytes = static_cast<const uint8_t*>(text.data());
    tokenizer.encode_between(bytes, text.size(), first, ids);
  }
  return owned(std::move(ids));
}

void check_id(const Tokenizer& tokenizer, int64_t id) {
  if (id < 0 || id >= int64_t(tokenizer.size())) {
    throw nb::index_error("a token id is not in the vocabulary");
  }
}

nb::bytes decode(const Tokenizer& tokenizer, Vector<int32_t> ids, bool skip_special) {
  std::string text;
  for (size_t i = 0; i < ids.shape(0); ++i) check_id(tokenizer, ids.data()[i]);
  {
    std::optional<nb::gil_scoped_release> released;
    if (ids.shape(0) >= kLongBytes) released.emplace();
    text = tokenizer.decode(ids.data(), ids.shape(0), skip_special);
  }
  return nb::bytes(text.data(), text.size());
}

nb::bytes token_bytes(const Tokenizer& tokenizer, int64_t id) {
  check_id(tokenizer, id);
  const std::string_view bytes = tokenizer.bytes(int32_t(id));
  return nb::bytes(bytes.data(), bytes.size());
}

// The end of every word of a text. (words,)
Ids word_ends(nb::bytes text, const std::string& splitter) {
  const pyrite::Splitter* found = pyrite::find_splitter(splitter);
  if (found == nullptr) throw nb::value_error("no such pre-tokenizer");
  if (text.size() > size_t(INT32_MAX)) throw nb::value_error("the text is longer than 2 GiB");
  std::vector<int32_t> ends;
  const pyrite::Text whole(static_cast<const uint8_t*>(text.data()), text.size());
  pyrite::split(found->stages, whole, 0, text.size(),
                [&](size_t, size_t end) { ends.push_back(int32_t(end)); });
  return owned(std::move(ends));
}

}  // namespace

void bind_tokenizer(nb::module_& module) {
  nb::class_<Tokenizer>(module, "Tokenizer")
      .def_static("byte_pair", &byte_pair, nb::arg("data"), nb::arg("starts"), nb::arg("lengths"),
                  nb::arg("types"), nb::arg("unknown_id"), nb::arg("marks"), nb::arg("merge_data"),
                  nb::arg("merge_starts"), nb::arg("merge_lengths"), nb::arg("splitter"),
                  nb::arg("whole_word_first").none())
      .def_static("scored_pieces", &scored_pieces, nb::arg("data"), nb::arg("starts"),
                  nb::arg("lengths"), nb::arg("types"), nb::arg("unknown_id"), nb::arg("marks"),
                  nb::arg("scores"), nb::arg("prefix"))
      .def_static("merged_pieces", &merged_pieces, nb::arg("data"), nb::arg("starts"),
                  nb::arg("lengths"), nb::arg("types"), nb::arg("unknown_id"), nb::arg("marks"),
                  nb::arg("merge_data"), nb::arg("merge_starts"), nb::arg("merge_lengths"),
                  nb::arg("prefix"))
      .def_static("greedy", &greedy, nb::arg("data"), nb::arg("starts"), nb::arg("lengths"),
                  nb::arg("types"), nb::arg("unknown_id"), nb::arg("marks"))
      .def("encode", &encode, nb::arg("text"), nb::arg("special"))
      .def("encode_within", &encode_within, nb::arg("text"), nb::arg("edges"))
      .def("find_markers", &find_markers, nb::arg("text"), nb::arg("edges"))
      .def("encode_between", &encode_between, nb::arg("text"), nb::arg("first"))
      .def("decode", &decode, nb::arg("ids"), nb::arg("skip_special"))
      .def("token_bytes", &token_bytes, nb::arg("id"))
      .def("__len__", &Tokenizer::size)
      .def_prop_ro("num_dead_merges", &Tokenizer::num_dead_merges)
      .def_prop_ro("num_missing_bytes", &Tokenizer::num_missing_bytes);
  module.def("word_ends", &word_ends, nb::arg("text"), nb::arg("splitter"));
  module.def("splitter_names", &pyrite::splitter_names);
}
