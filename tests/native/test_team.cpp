// The thread team under stress: thousands of short steps of many phases, more members than cores,
// members that are late, a fork. Meant for the thread sanitizer too: the sums below are not atomic,
// so a chunk that is done twice, or read before it is finished, is a race.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "check.h"
#include "program/team.h"
#include "program/tickets.h"

namespace {

using pyrite::Team;
using pyrite::Tickets;

constexpr int kPhases = 20;
constexpr int kChunks = 7;

// Each phase adds one to every cell of its row, having read the row before: cell (phase, chunk) is
// what the phase before left in all of its cells.
struct Work {
  Tickets tickets[kPhases];
  long cells[kPhases][kChunks] = {};
  int sleeper = -1;  // this member comes late to every phase

  static void run(void* context, int member, uint32_t epoch) {
    static_cast<Work*>(context)->walk(member, epoch);
  }

  void walk(int member, uint32_t epoch) {
    for (int phase = 0; phase < kPhases; ++phase) {
      if (member == sleeper) std::this_thread::sleep_for(std::chrono::microseconds(200));
      int chunk;
      while ((chunk = tickets[phase].take(epoch)) >= 0) {
        compute(phase, chunk);
        tickets[phase].finish();
      }
      if (chunk == Tickets::kStale || !tickets[phase].wait(epoch, 100)) return;
    }
  }

  void compute(int phase, int chunk) {
    long before = 0;
    if (phase > 0) {
      for (long cell : cells[phase - 1]) before += cell;
      CHECK(before == kChunks * cells[phase - 1][0]);
    }
    ++cells[phase][chunk];
  }

  void steps(Team& team, int count) {
    for (int step = 0; step < count; ++step) {
      for (Tickets& phase : tickets) phase.reset(team.next_epoch(), kChunks);
      team.run();
    }
  }

  void check(long count) {
    for (auto& row : cells) {
      for (long cell : row) CHECK(cell == count);
    }
  }
};

void test_sizes() {
  for (int size : {1, 2, 3, 16}) {
    Work work;
    Team team(size, Work::run, &work);
    work.steps(team, 300);
    work.check(300);
  }
}

// The caller does not wait for a member that holds no chunk: 20 phases of a member that sleeps
// 200 us in each would take 4 ms a step.
void test_late_member() {
  Work work;
  work.sleeper = 1;
  Team team(2, Work::run, &work);
  const auto start = std::chrono::steady_clock::now();
  work.steps(team, 100);
  const auto spent = std::chrono::steady_clock::now() - start;
  work.check(100);
  CHECK(spent < std::chrono::milliseconds(350));
}

void test_steps_after_a_pause() {
  Work work;
  Team team(3, Work::run, &work);
  for (int round = 0; round < 20; ++round) {
    work.steps(team, 5);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  work.check(100);
}

void test_empty_phases() {
  Work work;
  Team team(2, Work::run, &work);
  for (Tickets& phase : work.tickets) phase.reset(team.next_epoch(), 0);
  team.run();
  work.check(0);
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow threads into a forked child
// A forked child has none of the parent's threads: it starts a team of its own, and ends cleanly.
void test_fork() {
  Work work;
  Team team(2, Work::run, &work);
  work.steps(team, 10);
  const pid_t child = fork();
  if (child == 0) {
    work.steps(team, 10);
    work.check(20);
    team.~Team();
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  work.steps(team, 10);
  work.check(20);
}
#endif

void test_many_teams() {
  for (int round = 0; round < 50; ++round) {
    Work work;
    Team team(4, Work::run, &work);
    work.steps(team, round % 3);
    work.check(round % 3);
  }
}

}  // namespace

int main() {
  test_sizes();
  test_late_member();
  test_steps_after_a_pause();
  test_empty_phases();
  test_many_teams();
#if !defined(__SANITIZE_THREAD__)
  if (const char* emulator = std::getenv("PYRITE_TEST_EMULATED")) {
    std::printf("fork is not tested: %s keeps locks of threads that the child lacks\n", emulator);
  } else {
    test_fork();
  }
#endif
  return 0;
}
