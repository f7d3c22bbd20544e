// A tokenizer.json of whatever bytes: cut anywhere, and with bytes changed. Meant for the sanitizers;
// what is right is the Python tests' matter.

#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"
#include "text/token_lists.h"

namespace {

const std::string kFile =
    R"({"added_tokens": [{"id": 3, "content": "\u00e9"}],
        "model": {"vocab": {"a": 0, "b\ud83d\ude00": -12, "é": 9223372036854775807, "": 4},
                  "merges": ["a b", ["b", "a"], [" ", "\n"]], "type": "BPE", "dropout": 0.5}})";

// Whether it is a tokenizer.json. Kept at its exact size: a read past the end is a fault.
bool reads(const std::string& text) {
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  try {
    const pyrite::TokenizerJson file =
        pyrite::read_tokenizer_json(bytes.data(), bytes.size(), 1000);
    CHECK(file.rest.size() <= text.size() + 2 * std::string("null").size());
    if (file.names) CHECK(file.names->find("nobody") < int64_t(file.names->size()));
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

}  // namespace

int main() {
  CHECK(reads(kFile));
  for (const char* least : {R"({"": 0})", "{}"}) {
    CHECK(reads(std::string(R"({"model": {"merges": [""], "vocab": )") + least + "}}"));
  }
  for (size_t size = 0; size < kFile.size(); ++size) CHECK(!reads(kFile.substr(0, size)));
  std::mt19937 random(5);
  size_t read = 0;
  for (int i = 0; i < 100000; ++i) {
    std::string changed = kFile;
    for (size_t change = 0; change <= random() % 3; ++change) {
      changed[random() % changed.size()] = random() % 2 ? char(random()) : "\"\\{}[],:0"[random() % 10];
    }
    read += reads(changed);
  }
  CHECK(read > 1000 && read < 99000);
  return 0;
}
