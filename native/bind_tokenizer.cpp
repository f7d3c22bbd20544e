#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bind_arrays.h"
#include "bind_released.h"
#include "text/split.h"
#include "text/tokenizer.h"

namespace nb = nanobind;

using pyrite::Tokenizer;

namespace {

using Ids = nb::ndarray<nb::numpy, int32_t, nb::ndim<1>>;

// Below this a text is encoded sooner than the interpreter lock changes hands.
constexpr size_t kLongBytes = 2048;

// Of each token its type, and its marks: none where markers are told by their types. And the unknown
// token's id, or -1.
using Kinds = std::tuple<Vector<int32_t>, Vector<uint8_t>, int32_t>;

pyrite::TokenizerSource source(const Table& table, const Kinds& kinds) {
  const auto& [types, marks, unknown_id] = kinds;
  const pyrite::Strings tokens = strings(table);
  if (tokens.count > size_t(INT32_MAX)) throw nb::value_error("more tokens than ids");
  if (types.shape(0) != tokens.count) throw nb::value_error("types differ from tokens in number");
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

std::unique_ptr<Tokenizer> byte_pair(const Table& tokens, const Kinds& kinds, const Table& merges,
                                     const std::string& splitter,
                                     std::optional<bool> whole_first, bool space_first) {
  const pyrite::Splitter* found = pyrite::find_splitter(splitter);
  if (found == nullptr) throw nb::value_error("no such pre-tokenizer");
  const pyrite::TokenizerSource from = source(tokens, kinds);
  const pyrite::Strings ranked = strings(merges);
  const bool whole = whole_first.value_or(found->whole_word_first);
  Released released;
  return Tokenizer::byte_pair(from, ranked, {*found, whole, space_first});
}

std::unique_ptr<Tokenizer> scored_pieces(const Table& tokens, const Kinds& kinds,
                                         const Vector<float>& scores, int32_t prefix,
                                         bool strips) {
  const pyrite::TokenizerSource from = source(tokens, kinds);
  if (scores.shape(0) != from.tokens.count) {
    throw nb::value_error("scores differ from tokens in number");
  }
  const pyrite::SpacePrefix where = space_prefix(prefix);
  Released released;
  return Tokenizer::sentence_piece(from, scores.data(), {where}, strips);
}

std::unique_ptr<Tokenizer> merged_pieces(const Table& tokens, const Kinds& kinds,
                                         const Table& merges, int32_t prefix, bool strips,
                                         bool cuts) {
  const pyrite::TokenizerSource from = source(tokens, kinds);
  const pyrite::Strings ranked = strings(merges);
  const pyrite::SpacePrefix where = space_prefix(prefix);
  Released released;
  return Tokenizer::sentence_piece(from, ranked, {where, cuts}, strips);
}

std::unique_ptr<Tokenizer> greedy(const Table& tokens, const Kinds& kinds) {
  const pyrite::TokenizerSource from = source(tokens, kinds);
  Released released;
  return Tokenizer::greedy(from);
}

Ids encode_spans(const Tokenizer& tokenizer, nb::bytes text,
                 std::span<const pyrite::Span> spans) {
  std::vector<int32_t> ids;
  {
    std::optional<Released> released;
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
    std::optional<Released> released;
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
    std::optional<Released> released;
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
      .def_static("byte_pair", &byte_pair, nb::arg("tokens"), nb::arg("kinds"), nb::arg("merges"),
                  nb::arg("splitter"), nb::arg("whole_first").none(), nb::arg("space_first"))
      .def_static("scored_pieces", &scored_pieces, nb::arg("tokens"), nb::arg("kinds"),
                  nb::arg("scores"), nb::arg("prefix"), nb::arg("strips"))
      .def_static("merged_pieces", &merged_pieces, nb::arg("tokens"), nb::arg("kinds"),
                  nb::arg("merges"), nb::arg("prefix"), nb::arg("strips"), nb::arg("cuts"))
      .def_static("greedy", &greedy, nb::arg("tokens"), nb::arg("kinds"))
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
