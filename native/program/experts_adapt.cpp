// What adapters add to the products of a mixture. Rows of one adapter that go to one expert and are
// adjacent go through its two matrices together; a row's sums do not depend on that.

#include <algorithm>

#include "program/adapt.h"
#include "program/expert_tiles.h"

namespace pyrite {

namespace {

size_t line_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

int rank_stride(const ExpertsOp& op) { return divide_up(op.most_rank, kPanelRows) * kPanelRows; }

// Rows of pairs, one after the other, of one product.
uint8_t* rank_rows(const ExpertsOp& op, const Step& step, Slot slot) {
  const size_t pairs = size_t(step.num_rows(op.rows)) * op.routing.num_used;
  return step.mixture->ranks.data() + (slot == Slot::kSecond ? pairs * op.rank_row_bytes : 0);
}

void take_down(const ExpertsOp& op, const ExpertPair& pair, Slot slot, const Activations& in,
               const ExpertTile& tile, const Step& step, Member& member) {
  if (!pair.down) return;
  float* sums = reinterpret_cast<float*>(member.activations + line_up(kTileRows * op.row_bytes));
  const int rank = pair.up.first.columns, stride = rank_stride(op);
  step.kernels.matmul(pair.down.at(tile.expert), 0, pair.down.num_panels(), in, 0, tile.num_pairs,
                      sums, size_t(stride));
  uint8_t* rows = rank_rows(op, step, slot) + size_t(tile.first_pair) * op.rank_row_bytes;
  for (int i = 0; i < tile.num_pairs; ++i) {
    step.kernels.prepare_row(sums + size_t(i) * stride, rank, op.planes, op.rank_forms,
                             rows + size_t(i) * op.rank_row_bytes);
  }
}

const ExpertPair* pair_of(const ExpertProduct& product, int adapter) {
  return product.adapters.empty() ? nullptr : &product.adapters[size_t(adapter)];
}

void run_tile(const RankOp& op, const Step& step, Member& member, int adapter,
              const ExpertTile& tile) {
  const ExpertsOp& experts = op.experts;
  if (!op.is_inner) {
    const Activations in = {experts.feed_forward(), experts.planes, experts.inner_forms,
                            experts.inner_row_bytes,
                            step.activations + size_t(tile.first_pair) * experts.inner_row_bytes};
    if (const ExpertPair* pair = pair_of(experts.down, adapter)) {
      take_down(experts, *pair, Slot::kFirst, in, tile, step, member);
    }
    return;
  }
  const Activations in = rows_of(experts, step, member, tile);
  if (const ExpertPair* pair = pair_of(experts.gate, adapter)) {
    take_down(experts, *pair, Slot::kFirst, in, tile, step, member);
  }
  if (const ExpertPair* pair = pair_of(experts.up, adapter)) {
    take_down(experts, *pair, Slot::kSecond, in, tile, step, member);
  }
}

}  // namespace

size_t experts_bytes(const ExpertsOp& op) {
  return line_up(kTileRows * op.row_bytes) +
         (op.most_rank > 0 ? sizeof(float) * kTileRows * size_t(rank_stride(op)) : 0);
}

int count_chunks(const RankOp& op, const Step& step) {
  if (!any_adapter(step.batch)) return 0;
  const Routing& routing = op.experts.routing;
  return std::min(step.num_rows(op.experts.rows) * routing.num_used, routing.num_experts);
}

void run_chunk(const RankOp& op, const Step& step, Member& member, int chunk) {
  const Mixture& mixture = *step.mixture;
  if (chunk >= mixture.num_hit) return;
  const int expert = mixture.hit[size_t(chunk)];
  const ExpertTile all = {expert, mixture.first_pair(expert), mixture.num_pairs(expert), 0, 0};
  each_adapter(mixture, all, [&](int adapter, int first, int end) {
    for (; first < end; first += kTileRows) {
      run_tile(op, step, member, adapter, {expert, first, std::min(kTileRows, end - first), 0, 0});
    }
  });
}

void add_adapters(const ExpertsOp& op, const ExpertProduct& product, Slot slot,
                  const ExpertTile& tile, const Step& step, Member& member, float* sums) {
  if (product.adapters.empty()) return;
  float* added = member.tile + 2 * kTileRows * kTileStride;
  each_adapter(*step.mixture, tile, [&](int adapter, int first, int end) {
    const ExpertPair& pair = product.adapters[size_t(adapter)];
    if (!pair.up) return;
    const Activations in = {pair.up.first.columns, op.planes, op.rank_forms, op.rank_row_bytes,
                            rank_rows(op, step, slot)};
    step.kernels.matmul(pair.up.at(tile.expert), tile.first_panel, tile.num_panels, in, first,
                        end - first, added, kTileStride);
    for (int i = 0; i < end - first; ++i) {
      float* row = sums + size_t(first - tile.first_pair + i) * kTileStride;
      step.kernels.rows.add(row, added + size_t(i) * kTileStride, tile.num_lanes(product.weight),
                            row);
    }
  });
}

}  // namespace pyrite
