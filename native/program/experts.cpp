#include "program/experts.h"

#include <algorithm>
#include <cstring>

#include "program/adapt.h"
#include "program/expert_tiles.h"

namespace pyrite {

namespace {

constexpr int kRowsAtOnce = 2;  // up to so many are routed and grouped in one chunk

int num_rows(const ExpertsOp& op, const Step& step) { return step.num_rows(op.rows); }

int num_pairs(const ExpertsOp& op, const Step& step) {
  return num_rows(op, step) * op.routing.num_used;
}

void route_row(const ExpertsOp& op, const Step& step, Member& member, int row) {
  const size_t first = size_t(row) * op.routing.num_used;
  route(op.routing, op.scores.row(row), member.row, step.mixture->chosen.data() + first,
        step.mixture->weights.data() + first);
  step.kernels.prepare_row(op.in.row(row), op.width(), op.planes, op.forms,
                           step.activations + size_t(row) * op.row_bytes);
}

void group(const ExpertsOp& op, const Step& step) {
  step.mixture->group(num_rows(op, step), op.routing.num_used, op.routing.num_experts,
                      op.up.weight.num_panels());
  step.mixture->is_adapted = op.most_rank > 0 && any_adapter(step.batch);
  if (!step.mixture->is_adapted) return;
  for (int pair = 0; pair < num_pairs(op, step); ++pair) {
    const int row = step.mixture->pair_rows[size_t(pair)];
    step.mixture->pair_adapters[size_t(pair)] = adapter_of(step.batch, op.rows, row);
  }
}

float* inner_row(const ExpertsOp& op, const Step& step, int pair) {
  return step.mixture->inner.floats() + size_t(pair) * op.feed_forward();
}

void run_inner(const ExpertsOp& op, const Step& step, Member& member, const ExpertTile& tile) {
  const Activations in = rows_of(op, step, member, tile);
  float* up = member.tile + kTileRows * kTileStride;
  if (op.gate.weight) {
    multiply(op.gate, in, 0, tile, step, member.tile);
    add_adapters(op, op.gate, Slot::kFirst, tile, step, member, member.tile);
  }
  multiply(op.up, in, 0, tile, step, up);
  add_adapters(op, op.up, Slot::kSecond, tile, step, member, up);
  const int lanes = tile.num_lanes(op.up.weight);
  for (int i = 0; i < tile.num_pairs; ++i) {
    const size_t at = size_t(i) * kTileStride;
    float* out = inner_row(op, step, tile.first_pair + i) + tile.first_lane();
    if (op.gate.weight) {
      step.kernels.rows.gate(op.activation, member.tile + at, up + at, lanes, out);
    } else {
      step.kernels.rows.activate(op.activation, up + at, lanes, out);
    }
  }
}

// Calls visit(tile) for some units: the panels that they are of each expert's tiles.
template <class Visit>
void each_tile(const Mixture& mixture, int panels, UnitRange units, Visit visit) {
  const int32_t* starts = mixture.first_units.data();
  int hit = int(std::upper_bound(starts, starts + mixture.num_hit, units.first) - starts) - 1;
  while (units.first < units.end) {
    const int expert = mixture.hit[size_t(hit)];
    const Tiles tiles(mixture.num_pairs(expert));
    const int skipped = (units.first - starts[hit]) / panels * tiles.rows;
    const int panel = (units.first - starts[hit]) % panels;
    const int count = std::min(panels - panel, units.end - units.first);
    visit(ExpertTile{expert, mixture.first_pair(expert) + skipped,
                     std::min(tiles.rows, mixture.num_pairs(expert) - skipped), panel, count});
    units.first += count;
    if (units.first == starts[hit + 1]) ++hit;
  }
}

}  // namespace

Activations rows_of(const ExpertsOp& op, const Step& step, Member& member, const ExpertTile& tile) {
  Activations in = {op.width(), op.planes, op.forms, op.row_bytes, member.activations};
  const int32_t* rows = step.mixture->pair_rows.data() + tile.first_pair;
  if (rows[tile.num_pairs - 1] - rows[0] == tile.num_pairs - 1) {
    in.data = step.activations + size_t(rows[0]) * op.row_bytes;
    return in;
  }
  const bool is_there = member.prepared_by == &op && member.prepared_in == step.number &&
                        member.prepared_pair == tile.first_pair;
  for (int i = 0; !is_there && i < tile.num_pairs; ++i) {
    std::memcpy(in.data + size_t(i) * op.row_bytes,
                step.activations + size_t(rows[i]) * op.row_bytes, op.row_bytes);
  }
  member.prepared_by = &op;
  member.prepared_in = step.number;
  member.prepared_pair = tile.first_pair;
  return in;
}

MixtureSizes mixture_sizes(const ExpertsOp& op, int max_tokens) {
  const size_t pairs = size_t(max_tokens) * op.routing.num_used;
  const size_t few = size_t(std::min(max_tokens, kFewRows)) * op.routing.num_used;
  return {pairs, size_t(op.routing.num_experts), pairs * op.feed_forward(), few * op.width(),
          2 * pairs * op.rank_row_bytes};
}

int count_chunks(const RouteOp& op, const Step& step) {
  const int rows = num_rows(op.experts, step);
  return rows <= kRowsAtOnce ? std::min(rows, 1) : rows;
}

void run_chunk(const RouteOp& op, const Step& step, Member& member, int chunk) {
  const int rows = num_rows(op.experts, step);
  if (rows > kRowsAtOnce) return route_row(op.experts, step, member, chunk);
  for (int row = 0; row < rows; ++row) route_row(op.experts, step, member, row);
  group(op.experts, step);
}

int count_chunks(const GroupOp& op, const Step& step) {
  return num_rows(op.experts, step) <= kRowsAtOnce ? 0 : 1;
}

void run_chunk(const GroupOp& op, const Step& step, Member&, int) { group(op.experts, step); }

int count_chunks(const InnerOp& op, const Step& step) {
  return unit_chunks(step, num_pairs(op.experts, step), op.experts.up.weight.num_panels());
}

void run_chunk(const InnerOp& op, const Step& step, Member& member, int chunk) {
  const ExpertsOp& experts = op.experts;
  const MatrixStack& weight = experts.up.weight;
  const size_t unit_bytes = weight.first.panel_bytes * (experts.gate.weight ? 2 : 1);
  const UnitRange units(step.mixture->num_units(), count_chunks(op, step), chunk,
                        least_units(unit_bytes));
  each_tile(*step.mixture, weight.num_panels(), units, [&](const ExpertTile& tile) {
    each_panels(tile, [&](const ExpertTile& part) { run_inner(experts, step, member, part); });
  });
}

int count_chunks(const PrepareInnerOp& op, const Step& step) { return num_pairs(op.experts, step); }

void run_chunk(const PrepareInnerOp& op, const Step& step, Member&, int chunk) {
  const ExpertsOp& experts = op.experts;
  step.kernels.prepare_row(inner_row(experts, step, chunk), experts.feed_forward(), experts.planes,
                           experts.inner_forms,
                           step.activations + size_t(chunk) * experts.inner_row_bytes);
}

}  // namespace pyrite
