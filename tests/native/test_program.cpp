// A whole program, step after step, on teams of several sizes: prefill of two sequences, then decode.
// The logits have to be the same bits every time. Meant for the sanitizers: the thread sanitizer sees
// every hand-over between phases, the address sanitizer every edge of the arena, pages and scratch.

#include <cstring>
#include <memory>
#include <vector>

#include "check.h"
#include "programs.h"

namespace {

using namespace pyrite;

constexpr int kWidth = 64;
constexpr int kHeads = 4, kKeyHeads = 2, kHeadWidth = 24;
constexpr int kExperts = 5, kUsed = 2, kFeedForward = 40;
constexpr int kAdapters = 2, kRank = 20;
constexpr int kVocabulary = 70;  // not a whole number of panels
constexpr int kTokens = 90;      // more than a tile of rows, and three pages
constexpr int kPages = 8;

void add_experts(Program& program, Weights& weights, Slice in, Slice scores, Slice out) {
  ExpertsOp op = {Rows::kTokens, in, scores, out};
  op.routing.num_experts = kExperts;
  op.routing.num_used = kUsed;
  op.gate.weight = weights.stack(kExperts, kFeedForward, kWidth);
  op.up.weight = weights.stack(kExperts, kFeedForward, kWidth);
  op.down.weight = weights.stack(kExperts, kWidth, kFeedForward);
  for (ExpertProduct* product : {&op.gate, &op.up, &op.down}) {
    const PackedMatrix& weight = product->weight.first;
    product->adapters.resize(kAdapters);
    product->adapters[1] = {weights.stack(kExperts, kRank, weight.columns),
                            weights.stack(kExperts, weight.rows, kRank)};
  }
  op.most_rank = kRank;
  op.activation = Activation::kSilu;
  const KernelTable& kernels = program.kernels();
  op.rank_forms = op.forms = op.inner_forms = kernels.activation_forms(WeightType::F32, 2);
  op.row_bytes = kernels.activation_bytes(kWidth, 2, op.forms);
  op.inner_row_bytes = kernels.activation_bytes(kFeedForward, 2, op.inner_forms);
  op.rank_row_bytes = kernels.activation_bytes(kRank, 2, op.rank_forms);
  program.add(RouteOp{op}, "route");
  program.add(GroupOp{op}, "group");
  program.add(RankOp{op, true}, "adapt");
  program.add(InnerOp{op}, "inner");
  program.add(PrepareInnerOp{op}, "prepare inner");
  program.add(RankOp{op, false}, "adapt outer");
  program.add(OuterOp{op}, "outer");
  program.add(SumOp{op}, "sum");
}

void add_heads(Program& program, Weights& weights, Slice in, Slice out) {
  HeadLinearOp op = {Rows::kTokens, in, out};
  op.carried = 4;
  op.weight = weights.stack(kHeads, kWidth / kHeads - op.carried, kWidth / kHeads - op.carried);
  op.forms = program.kernels().activation_forms(WeightType::F32, 2);
  op.row_bytes = program.kernels().activation_bytes(op.weight.first.columns, 2, op.forms);
  program.add(op, "heads");
}

// What adapters add to the embedding table, or to the head.
void add_adapted(Program& program, Weights& weights, Slice in, Slice base, Slice out) {
  AdaptOp op = {Rows::kTokens, in, base, out, std::vector<AdapterPair>(kAdapters)};
  const auto keep = [&](int rows, int columns) {
    return program.add_matrix(weights.matrix(rows, columns));
  };
  for (AdapterPair& pair : op.adapters) {
    pair.down = in ? keep(kRank, in.width) : keep(kVocabulary, kRank);
    pair.up = keep(out.width, kRank);
  }
  op.most_rank = kRank;
  op.forms = program.kernels().activation_forms(WeightType::F32, 2);
  if (in) op.row_bytes = program.kernels().activation_bytes(in.width, 2, op.forms);
  op.inner_row_bytes = program.kernels().activation_bytes(kRank, 2, op.forms);
  op.is_result = bool(in);
  program.add(std::move(op), "adapt");
}

std::unique_ptr<Program> build(Weights& weights, int num_threads, KvType kv_type) {
  const char* error = nullptr;
  const KernelTable* kernels = kernel_table("", &error);
  CHECK(kernels != nullptr);
  constexpr int query = kHeads * kHeadWidth, key = kKeyHeads * kHeadWidth;
  const Sizes sizes = {num_threads, 2 * kTokens, 2 * kWidth + 2 * query + 2 * key + 64, kVocabulary,
                       kPages, kKeyHeads * head_block_bytes({kHeadWidth, kHeadWidth}, kv_type)};
  auto program = std::make_unique<Program>(*kernels, sizes);
  const auto add = [&](int rows, int columns) {
    return program->add_matrix(weights.matrix(rows, columns));
  };
  const Slice x = program->slice(0, kWidth);
  const Slice y = program->slice(kWidth, kWidth);
  const Slice all = program->slice(2 * kWidth, query + 2 * key);
  const Slice mixed = program->slice(2 * kWidth + query + 2 * key, query);

  program->add(EmbedOp{add(kVocabulary, kWidth), 1.0f, x}, "embed");
  add_adapted(*program, weights, {}, x, x);
  LinearOp projections = linear(*program, x, all, {add(query, kWidth), add(key, kWidth),
                                                   add(key, kWidth)});
  projections.preparation.norm = {NormKind::kRms, 1e-6f,
                                  program->add_vector(std::vector<float>(kWidth, 1.0f)), nullptr};
  add_linear(*program, projections);

  AttentionOp attention{{all.data, all.stride, query},
                        {all.data + query, all.stride, key},
                        {all.data + query + key, all.stride, key},
                        mixed};
  attention.heads = kHeads;
  attention.key_heads = kKeyHeads;
  attention.shape = {kHeadWidth, kHeadWidth};
  attention.kv_type = kv_type;
  attention.window = 40;
  attention.rope = program->add_rope({1.0, 0.5, 0.25, 0.125}, 1.0, true);
  program->add(StoreOp{attention}, "store");
  program->add(AttendOp{attention}, "attend");
  program->add(JoinOp{attention}, "join");

  LinearOp back = linear(*program, mixed, y, {add(kWidth, query)});
  back.residual = x;
  add_linear(*program, back);
  LinearOp gated = linear(*program, y, x, {add(kWidth, kWidth)});
  gated.segments[0].pair = add(kWidth, kWidth);
  gated.activation = Activation::kSilu;
  add_linear(*program, gated);
  const Slice sum = {mixed.data, mixed.stride, kWidth};
  add_experts(*program, weights, x, program->slice(kWidth, kExperts), sum);
  add_heads(*program, weights, sum, y);
  const Slice scores = {all.data, all.stride, kVocabulary};
  add_linear(*program, linear(*program, y, scores, {add(kVocabulary, kWidth)}));
  add_adapted(*program, weights, y, scores, program->slice(-1, kVocabulary));
  return program;
}

// `tokens` new tokens of each of two sequences from position `start` on.
std::vector<float> run(Program& program, int start, int tokens) {
  std::vector<int32_t> ids, positions, rows;
  for (int i = 0; i < 2 * tokens; ++i) {
    ids.push_back((start + 7 * i) % kVocabulary);
    positions.push_back(start + i % tokens);
    rows.push_back(i);
  }
  const int32_t starts[] = {0, tokens, 2 * tokens};
  const int32_t tables[] = {0, 2, 4, 6, 7, 5, 3, 1};
  Batch batch = {2 * tokens,  2, 2 * tokens, ids.data(), positions.data(), starts, tables, 4,
                 rows.data()};
  const int32_t adapters[] = {-1, 1};
  if (start % 2 == 0) batch.adapters = adapters;
  program.run(batch);
  for (uint8_t finite : program.finite()) CHECK(finite == 1);
  const float* logits = program.logits();
  return {logits, logits + size_t(2 * tokens) * kVocabulary};
}

std::vector<float> session(int num_threads, KvType kv_type) {
  Weights weights;
  auto program = build(weights, num_threads, kv_type);
  program->profile(num_threads == 2);
  std::vector<float> all;
  for (int round = 0; round < 3; ++round) {
    const std::vector<float> prefill = run(*program, 0, kTokens);
    all.insert(all.end(), prefill.begin(), prefill.end());
    for (int step = 0; step < 20; ++step) {
      const std::vector<float> logits = run(*program, kTokens + step, 1);
      all.insert(all.end(), logits.begin(), logits.end());
    }
  }
  return all;
}

}  // namespace

int main() {
  for (KvType kv_type : {KvType::kF16, KvType::kQ8}) {
    const std::vector<float> alone = session(1, kv_type);
    for (int num_threads : {2, 3, 8}) {
      const std::vector<float> found = session(num_threads, kv_type);
      CHECK(found.size() == alone.size());
      CHECK(std::memcmp(found.data(), alone.data(), sizeof(float) * alone.size()) == 0);
    }
  }
  return 0;
}
