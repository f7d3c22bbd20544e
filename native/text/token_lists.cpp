#include "text/token_lists.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "text/json_reader.h"

namespace pyrite {

namespace {

const uint8_t* as_bytes(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

void check_count(size_t count, size_t most) {
  if (count >= most) throw std::invalid_argument("more than " + std::to_string(most) + " entries");
}

// What an error shows of a string: whole characters of its beginning.
std::string shown(std::string_view text) {
  size_t size = std::min<size_t>(text.size(), 40);
  while (size < text.size() && size > 0 && (uint8_t(text[size]) & 0xC0) == 0x80) --size;
  return "'" + std::string(text.substr(0, size)) + "'";
}

// Calls value(name) at the value of each member.
template <class Value>
void read_object(JsonReader& json, const Value& value) {
  json.expect('{');
  if (json.take('}')) return;
  do {
    const std::string_view name = json.string();
    json.expect(':');
    value(name);
  } while (json.another('}'));
}

StringList read_merges(JsonReader& json, size_t most) {
  StringList merges;
  json.expect('[');
  if (json.take(']')) return merges;
  do {
    check_count(merges.starts.size(), most);
    if (json.take('[')) {
      merges.add(json.string());
      json.expect(',');
      merges.extend(" ");
      merges.extend(json.string());
      json.expect(']');
    } else {
      merges.add(json.string());
    }
  } while (json.another(']'));
  return merges;
}

class FileReader {
 public:
  FileReader(const uint8_t* text, size_t size, size_t most)
      : json_(text, size), most_(most), copied_(json_.at()) {}

  TokenizerJson read() {
    bool has_model = false;
    read_object(json_, [&](std::string_view name) {
      const bool is_model = name == "model";
      if (is_model && has_model) throw std::invalid_argument("two models");
      has_model = has_model || is_model;
      if (is_model && json_.peek() == '{') return read_model();
      json_.skip();
    });
    json_.expect_end();
    file_.rest.append(copied_, json_.at());
    return std::move(file_);
  }

 private:
  void read_model() {
    read_object(json_, [this](std::string_view name) {
      const bool is_vocab = name == "vocab" && json_.peek() == '{';
      const bool is_merges = name == "merges" && json_.peek() == '[';
      if (!is_vocab && !is_merges) return json_.skip();
      if (is_vocab ? file_.names.has_value() : file_.merges.has_value()) {
        throw std::invalid_argument(is_vocab ? "two vocabularies" : "two lists of merges");
      }
      file_.rest.append(copied_, json_.at());
      read_list(is_vocab ? "vocab" : "merges", [&] {
        if (is_vocab) file_.names = TokenNames::read(json_, most_);
        if (is_merges) file_.merges = read_merges(json_, most_);
      });
      file_.rest += "null";
      copied_ = json_.at();
    });
  }

  template <class Read>
  static void read_list(const char* name, const Read& read) {
    try {
      read();
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(std::string(name) + ": " + error.what());
    }
  }

  JsonReader json_;
  size_t most_;
  const char* copied_;  // what lies before is in the rest, or in a list
  TokenizerJson file_;
};

}  // namespace

void TokenNames::add(std::string_view name) {
  if (name.empty()) empty_ = int64_t(names_.size());
  names_.add(name, Kind::kNormal, true);
}

TokenNames TokenNames::read(JsonReader& json, size_t most) {
  TokenNames read;
  read_object(json, [&](std::string_view name) {
    check_count(read.size(), most);
    read.add(name);
    read.numbers_.push_back(json.integer());
  });
  read.names_.index();
  if (const int32_t twice = read.names_.repeated(); twice >= 0) {
    throw std::invalid_argument("the name " + shown(read.names_.bytes(twice)) + " occurs twice");
  }
  return read;
}

TokenNames TokenNames::numbered(const Strings& names) {
  TokenNames made;
  for (size_t i = 0; i < names.count; ++i) {
    made.add(names[i]);
    made.numbers_.push_back(int64_t(i));
  }
  made.names_.index();
  return made;
}

int64_t TokenNames::find(std::string_view name) const {
  return name.empty() ? empty_ : names_.find(as_bytes(name), name.size());
}

TokenizerJson read_tokenizer_json(const uint8_t* text, size_t size, size_t most) {
  return FileReader(text, size, most).read();
}

std::vector<uint8_t> made_names(const Strings& merges, const Strings& names) {
  Vocabulary sought;
  for (size_t i = 0; i < names.count; ++i) sought.add(names[i], Kind::kNormal, true);
  sought.index();
  std::vector<uint8_t> made(names.count);
  std::string joined;
  for (size_t i = 0; i < merges.count; ++i) {
    const std::string_view merge = merges[i];
    if (merge.size() > sought.longest() + 1) continue;
    // A part may be a space itself, so each space may be the one between them.
    for (size_t space = merge.find(' ', 1); space < merge.size();
         space = merge.find(' ', space + 1)) {
      (joined = merge.substr(0, space)) += merge.substr(space + 1);
      const int32_t found = sought.find(as_bytes(joined), joined.size());
      if (found >= 0) made[size_t(found)] = 1;
    }
  }
  return made;
}

}  // namespace pyrite
