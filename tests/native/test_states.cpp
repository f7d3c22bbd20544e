// Every operation with a state, and attention whose values lie in the keys, in one program: prompts
// whole and in pieces, then decode, on teams of several sizes. Each token's logits have to be the same
// bits. Meant for the sanitizers, as test_program.cpp is.

#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "check.h"
#include "programs.h"

namespace {

using namespace pyrite;

constexpr int kWidth = 64;
constexpr int kVocabulary = 70;
constexpr int kPrompt = 90, kDecoded = 6;  // tokens of each of two sequences
constexpr int kSlots = 3;
constexpr int kColumns = 4096;
constexpr size_t kStateFloats = 1 << 14;
constexpr HeadShape kLatent = {40, 32, true};
constexpr int kLatentHeads = 4;

// Gives out the columns of the arena and the floats of a slot, one after another.
class Builder {
 public:
  Builder(Program& program, Weights& weights, KvType kv_type)
      : program_(program), weights_(weights), kv_type_(kv_type) {}

  void build() {
    const Slice x = take(kWidth), results = take(1024);
    program_.add(EmbedOp{matrix(kVocabulary, kWidth), 1.0f, x}, "embed");
    x_ = x;
    rest_ = results;
    add_shift();
    add_delta();
    add_scan(4, 12, 2, false);
    add_scan(160, 1, 1, true);
    add_wkv4();
    add_wkv7();
    add_latent();
    const int used = results.width - rest_.width;
    LinearOp head = linear(program_, {results.data, results.stride, used},
                           program_.slice(-1, kVocabulary), {matrix(kVocabulary, used)});
    head.preparation.norm = rms(used);
    head.is_result = true;
    add_linear(program_, head);
    CHECK(columns_ <= kColumns && floats_ <= kStateFloats);
  }

 private:
  Slice take(int width) {
    const Slice slice = program_.slice(columns_, width);
    columns_ += (width + 15) / 16 * 16;
    return slice;
  }

  // Adjacent columns of what the head reads.
  Slice result(int width) {
    CHECK(width <= rest_.width);
    const Slice slice = columns(rest_, 0, width);
    rest_ = columns(rest_, width, rest_.width - width);
    return slice;
  }

  static Slice columns(const Slice& slice, int first, int width) {
    return {slice.data + first, slice.stride, width};
  }

  size_t state(size_t size) {
    const size_t offset = floats_;
    floats_ += size;
    return offset;
  }

  const PackedMatrix* matrix(int rows, int columns) {
    return program_.add_matrix(weights_.matrix(rows, columns));
  }

  // From low to high by equal steps.
  const float* vector(int width, float low, float high) {
    std::vector<float> values(static_cast<size_t>(width));
    for (int i = 0; i < width; ++i) values[size_t(i)] = low + (high - low) * float(i) / float(width);
    return program_.add_vector(values);
  }

  Norm rms(int width) { return {NormKind::kRms, 1e-6f, vector(width, 1, 1), nullptr}; }

  // A product of the normalised embedding: values of about one.
  Slice projected(int width) {
    LinearOp op = linear(program_, x_, take(width), {matrix(width, kWidth)});
    op.preparation.norm = rms(kWidth);
    const Slice out = op.out;
    add_linear(program_, op);
    return out;
  }

  // Heads of length one.
  Slice unit(const Slice& in, int head_width) {
    const Slice out = take(in.width);
    const Norm norm = {NormKind::kL2, 1e-6f, nullptr, nullptr};
    program_.add(NormOp{Rows::kTokens, in, out, norm, head_width, false, {}}, "unit");
    return out;
  }

  void add_shift() {
    program_.add(ShiftOp{x_, result(kWidth), state(kWidth)}, "shift");
  }

  // Behind a convolution of more columns than a chunk has.
  void add_delta() {
    constexpr int kKeyHeads = 4, kKeyWidth = 20, kHeads = 8, kValueWidth = 14;
    constexpr int keys = kKeyHeads * kKeyWidth, values = kHeads * kValueWidth, all = 2 * keys + values;
    const Slice mixed = take(all);
    program_.add(ConvOp{projected(all), mixed, vector(4 * all, -1, 1), vector(all, 0, 1), 4,
                        Activation::kSilu, state(3 * all)},
                 "conv");
    for (const bool is_tiled : {false, true}) {
      program_.add(DeltaOp{unit(columns(mixed, 0, keys), kKeyWidth),
                           unit(columns(mixed, keys, keys), kKeyWidth),
                           columns(mixed, 2 * keys, values), projected(kHeads), projected(kHeads),
                           result(values), vector(kHeads, -2, -0.1f), vector(kHeads, -1, 1), kHeads,
                           kKeyHeads, kKeyWidth, kValueWidth, is_tiled,
                           state(size_t(values) * kKeyWidth)},
                   "delta");
    }
  }

  void add_scan(int heads, int head_width, int groups, bool is_by_state) {
    constexpr int kStateWidth = 9;
    const int width = heads * head_width;
    program_.add(ScanOp{projected(width), projected(heads), projected(groups * kStateWidth),
                        projected(groups * kStateWidth), result(width),
                        vector(is_by_state ? heads * kStateWidth : heads, -2, -0.1f),
                        vector(heads, -1, 1), vector(heads, -1, 1),
                        {heads, head_width, kStateWidth, groups, is_by_state}, 0.01f, 2.0f,
                        state(size_t(width) * kStateWidth)},
                 "scan");
  }

  void add_wkv4() {
    constexpr int kColumnsHere = 80;  // more than a chunk has
    program_.add(Wkv4Op{projected(kColumnsHere), projected(kColumnsHere), result(kColumnsHere),
                        vector(kColumnsHere, -2, -0.1f), vector(kColumnsHere, -1, 1),
                        state(3 * kColumnsHere)},
                 "wkv4");
  }

  void add_wkv7() {
    constexpr int kHeads = 5, kHeadWidth = 16, all = kHeads * kHeadWidth;
    program_.add(Wkv7Op{projected(all), projected(all), projected(all), projected(all),
                        unit(projected(all), kHeadWidth), unit(projected(all), kHeadWidth),
                        result(all), kHeadWidth, state(size_t(all) * kHeadWidth)},
                 "wkv7");
  }

  void add_latent() {
    AttentionOp op{projected(kLatentHeads * kLatent.key_width), projected(kLatent.key_width), {},
                   result(kLatentHeads * kLatent.value_width)};
    op.heads = kLatentHeads;
    op.key_heads = 1;
    op.shape = kLatent;
    op.kv_type = kv_type_;
    op.scale = 0.2f;
    program_.add(StoreOp{op}, "store");
    program_.add(AttendOp{op}, "attend");
    program_.add(JoinOp{op}, "join");
  }

  Program& program_;
  Weights& weights_;
  const KvType kv_type_;
  Slice x_, rest_;
  int columns_ = 0;
  size_t floats_ = 0;
};

// `tokens` new tokens of each of two sequences from position `start` on; their logits go to where
// `logits` has them, (sequences, positions, vocabulary).
void run(Program& program, int start, int tokens, std::vector<float>& logits) {
  std::vector<int32_t> ids, positions, rows(size_t(2 * tokens));
  std::iota(rows.begin(), rows.end(), 0);
  for (int i = 0; i < 2 * tokens; ++i) {
    const int position = start + i % tokens;
    ids.push_back((7 * position + 31 * (i / tokens)) % kVocabulary);
    positions.push_back(position);
  }
  const int32_t starts[] = {0, tokens, 2 * tokens};
  const int32_t tables[] = {0, 2, 4, 5, 3, 1};
  const int32_t slots[] = {2, 0};
  Batch batch = {2 * tokens, 2, 2 * tokens, ids.data(), positions.data(), starts, tables, 3,
                 rows.data(), slots};
  program.run(batch);
  for (uint8_t finite : program.finite()) CHECK(finite == 1);
  const size_t size = size_t(tokens) * kVocabulary;
  for (size_t sequence = 0; sequence < 2; ++sequence) {
    const size_t first = sequence * (kPrompt + kDecoded) + size_t(start);
    std::memcpy(&logits[first * kVocabulary], program.logits() + sequence * size,
                size * sizeof(float));
  }
}

void check_same(const std::vector<float>& one, const std::vector<float>& other) {
  CHECK(one.size() == other.size());
  CHECK(std::memcmp(one.data(), other.data(), sizeof(float) * one.size()) == 0);
}

// Twice: the second time finds old states and pages, and must not see them.
std::vector<float> session(int num_threads, KvType kv_type, const std::vector<int>& pieces) {
  const char* error = nullptr;
  const KernelTable* kernels = kernel_table("", &error);
  CHECK(kernels != nullptr);
  const Sizes sizes = {num_threads, 2 * kPrompt, kColumns, kVocabulary, 6,
                       head_block_bytes(kLatent, kv_type), kSlots, kStateFloats};
  Program program(*kernels, sizes);
  Weights weights;
  Builder(program, weights, kv_type).build();
  std::vector<float> rounds[2];
  for (std::vector<float>& logits : rounds) {
    logits.resize(size_t(2) * (kPrompt + kDecoded) * kVocabulary);
    int start = 0;
    for (int tokens : pieces) {
      run(program, start, tokens, logits);
      start += tokens;
    }
    CHECK(start == kPrompt);
    for (; start < kPrompt + kDecoded; ++start) run(program, start, 1, logits);
  }
  check_same(rounds[0], rounds[1]);
  return rounds[0];
}

}  // namespace

int main() {
  for (KvType kv_type : {KvType::kF16, KvType::kQ8}) {
    const std::vector<float> whole = session(1, kv_type, {kPrompt});
    check_same(session(3, kv_type, {kPrompt}), whole);
    for (int num_threads : {1, 2, 3, 8}) {
      check_same(session(num_threads, kv_type, {1, 40, 3, kPrompt - 44}), whole);
    }
  }
  return 0;
}
