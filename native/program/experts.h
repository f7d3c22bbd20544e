#pragma once
// A mixture of experts. `RouteOp` chooses the experts of each row and prepares it; `GroupOp` puts rows
// together by their experts; `InnerOp` multiplies the rows of each expert by its gate and up matrices;
// `PrepareInnerOp` prepares what that gave; `OuterOp` multiplies it by the down matrices; where it does
// not sum by the way, `SumOp` does. Where adapters change the products, a `RankOp` before each takes the
// rows of their sequences through their first matrices, and the product adds the second. Only the matrices of experts that some row goes to are read, each
// once a step. A row's sum goes over its experts in ascending order, whatever its company.
//
// How many chunks a phase has must be known before anybody has been routed: they share out whatever
// work there turns out to be.

#include <vector>

#include "program/matrix_stack.h"
#include "program/mixture.h"
#include "program/routing.h"
#include "program/step.h"

namespace pyrite {

// What an adapter adds to a product of every expert; absent: nothing.
struct ExpertPair {
  MatrixStack down;  // (experts, rank, columns)
  MatrixStack up;    // (experts, rows, rank)
};

// One product of every expert: a matrix and perhaps a bias (experts, rows of a matrix).
struct ExpertProduct {
  MatrixStack weight;
  const float* bias = nullptr;
  std::vector<ExpertPair> adapters = {};  // by their numbers, where there are some

  const float* bias_of(int expert, int first_lane) const {
    return bias == nullptr ? nullptr : bias + size_t(expert) * weight.first.rows + first_lane;
  }
};

struct ExpertsOp {
  Rows rows;
  Slice in, scores, out;
  Routing routing;
  ExpertProduct gate, up, down;  // the gate may be absent
  Activation activation = Activation::kNone;
  int planes = 2;
  uint32_t forms = 0, inner_forms = 0;
  size_t row_bytes = 0, inner_row_bytes = 0;  // prepared
  int most_rank = 0;                          // of adapters; 0: there are none
  uint32_t rank_forms = 0;
  size_t rank_row_bytes = 0;  // prepared

  int width() const { return up.weight.first.columns; }
  int feed_forward() const { return up.weight.first.rows; }
};

struct RouteOp {
  ExpertsOp experts;
};

struct GroupOp {
  ExpertsOp experts;
};

// Before the first products, or before the last one.
struct RankOp {
  ExpertsOp experts;
  bool is_inner;
};

struct InnerOp {
  ExpertsOp experts;
};

struct PrepareInnerOp {
  ExpertsOp experts;
};

struct OuterOp {
  ExpertsOp experts;
};

struct SumOp {
  ExpertsOp experts;
};

// Bytes of a member's own: prepared rows of a tile, and what adapters make of them.
size_t experts_bytes(const ExpertsOp& op);

// What the mixture has to hold.
MixtureSizes mixture_sizes(const ExpertsOp& op, int max_tokens);

int count_chunks(const RouteOp& op, const Step& step);
int count_chunks(const GroupOp& op, const Step& step);
int count_chunks(const RankOp& op, const Step& step);
int count_chunks(const InnerOp& op, const Step& step);
int count_chunks(const PrepareInnerOp& op, const Step& step);
int count_chunks(const OuterOp& op, const Step& step);
int count_chunks(const SumOp& op, const Step& step);
void run_chunk(const RouteOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const GroupOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const RankOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const InnerOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const PrepareInnerOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const OuterOp& op, const Step& step, Member& member, int chunk);
void run_chunk(const SumOp& op, const Step& step, Member& member, int chunk);

}  // namespace pyrite
