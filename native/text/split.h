#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "text/unicode.h"

namespace pyrite {

// Where the match that begins at `at` ends; `at` itself when nothing matches there.
using Match = size_t (*)(const Text& text, size_t at);

// A pre-tokenizer: cuts a text into the words that merges never leave. Each stage cuts the pieces of
// the one before it, matches and the gaps between them alike; a null ends the list.
struct Splitter {
  std::string_view name;  // as in tokenizer.ggml.pre
  bool whole_word_first;  // a word that is a token is taken as it is, whatever the merges say
  const Match* stages;
};

// The splitter of that name, or null.
const Splitter* find_splitter(std::string_view name);

// The names of all splitters, sorted, joined by ", ".
std::string splitter_names();

// Calls emit(begin, end) for every word of the text from `begin` to `end`, in order, without gaps.
template <class Emit>
void split(const Match* stage, const Text& whole, size_t begin, size_t end, Emit&& emit) {
  if (*stage == nullptr) return emit(begin, end);
  const Text text = whole.part(begin, end);
  size_t gap = begin;
  for (size_t at = begin; at < end;) {
    const size_t stop = (*stage)(text, at);
    if (stop == at) {
      at += text.at(at).size;
      continue;
    }
    if (gap < at) split(stage + 1, text, gap, at, emit);
    split(stage + 1, text, at, stop, emit);
    gap = at = stop;
  }
  if (gap < end) split(stage + 1, text, gap, end, emit);
}

}  // namespace pyrite
