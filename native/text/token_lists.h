#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_reader.h"
#include "text/strings.h"
#include "text/vocabulary.h"

namespace pyrite {

// Names of tokens, and what number each has.
class TokenNames {
 public:
  // {"name": number, ...}, of at most `most` names, none of which may occur twice.
  static TokenNames read(JsonReader& json, size_t most);

  // Those of a list, numbered from 0 on; of a name that occurs twice the last one is found.
  static TokenNames numbered(const Strings& names);

  size_t size() const { return numbers_.size(); }
  const Vocabulary& names() const { return names_; }
  const std::vector<int64_t>& numbers() const { return numbers_; }

  // Its place in the list, or -1.
  int64_t find(std::string_view name) const;

 private:
  void add(std::string_view name);

  Vocabulary names_;
  std::vector<int64_t> numbers_;
  int64_t empty_ = -1;  // the vocabulary finds no empty name
};

// A tokenizer.json whose two long lists are read without an object for each entry.
struct TokenizerJson {
  std::string rest;                 // the file, with null in place of what was read
  std::optional<TokenNames> names;  // model.vocab, where that is an object
  // model.merges, where that is a list: ["left right", ...] or [["left", "right"], ...], mixed too;
  // each becomes b"left right".
  std::optional<StringList> merges;
};

// Throws std::invalid_argument, which names the byte, for what is no such file, and for more than
// `most` tokens or merges. `rest` has still to be seen to be JSON.
TokenizerJson read_tokenizer_json(const uint8_t* text, size_t size, size_t most);

// Which of `names` a merge makes: one a name.
std::vector<uint8_t> made_names(const Strings& merges, const Strings& names);

}  // namespace pyrite
