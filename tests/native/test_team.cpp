// The thread team under stress: thousands of short steps of many phases, more members than cores, a
// member that is slow, a fork. Meant for the thread sanitizer too: the sums below are not atomic, so a
// chunk that is done twice, or read before it is finished, is a race.

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "check.h"
#include "program/team.h"

namespace {

using pyrite::Attendance;
using pyrite::Share;
using pyrite::Team;

constexpr int kPhases = 20;
constexpr int kChunks = 7;

// Each phase adds one to every cell of its row, having read the row before: cell (phase, chunk) is
// what the phase before left in all of its cells.
struct Work {
  std::vector<int> chunks = std::vector<int>(kPhases, kChunks);
  long cells[kPhases][kChunks] = {};

  static void run(void* context, int, int phase, int chunk) {
    static_cast<Work*>(context)->compute(phase, chunk);
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
    for (int step = 0; step < count; ++step) team.run(chunks);
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
    Team team(size, kPhases, Work::run, &work);
    work.steps(team, 300);
    work.check(300);
  }
}

// Member 1 sleeps in each of its chunks, and member 0 does what is left of its share: dealt out for
// good, 20 phases of 50 such chunks would take a second.
struct Slow {
  static constexpr int kMany = 100;
  std::atomic<int> done[kMany] = {};
  std::atomic<int> by_member[2] = {};

  static void run(void* context, int member, int, int chunk) {
    Slow& slow = *static_cast<Slow*>(context);
    if (member == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++slow.done[chunk];
    ++slow.by_member[member];
  }
};

void test_slow_member() {
  Slow slow;
  Team team(2, kPhases, Slow::run, &slow);
  const auto start = std::chrono::steady_clock::now();
  team.run(std::vector<int>(kPhases, Slow::kMany));
  const auto spent = std::chrono::steady_clock::now() - start;
  for (const auto& count : slow.done) CHECK(count == kPhases);
  CHECK(slow.by_member[0] > slow.by_member[1]);
  CHECK(spent < std::chrono::milliseconds(500));
}

void test_more_chunks_than_tickets() {
  struct Sum {
    std::atomic<int64_t> chunks{0};
    static void run(void* context, int, int, int chunk) {
      static_cast<Sum*>(context)->chunks += chunk;
    }
  } sum;
  constexpr int64_t kMany = 3'000'001;
  Team team(2, 1, Sum::run, &sum);
  team.run(std::vector<int>{int(kMany)});
  CHECK(sum.chunks == kMany * (kMany - 1) / 2);
}

void test_steps_after_a_pause() {
  Work work;
  Team team(3, kPhases, Work::run, &work);
  for (int round = 0; round < 20; ++round) {
    work.steps(team, 5);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  work.check(100);
}

void test_empty_phases() {
  Work work;
  Team team(2, kPhases, Work::run, &work);
  team.run(std::vector<int>(kPhases, 0));
  work.check(0);
  std::vector<int> first(kPhases, 0);
  first[0] = kChunks;
  team.run(first);
  for (long cell : work.cells[0]) CHECK(cell == 1);
  for (long cell : work.cells[1]) CHECK(cell == 0);
}

void test_stopwatch() {
  Slow slow;
  Team team(2, 2, Slow::run, &slow);
  team.stopwatch().turn(true);
  for (int step = 0; step < 5; ++step) team.run(std::vector<int>{2, 0});
  CHECK(team.stopwatch().spent()[0] > 0 && team.stopwatch().spent()[1] == 0);
  team.stopwatch().turn(false);
  team.run(std::vector<int>{2, 2});
  CHECK(team.stopwatch().spent()[0] == 0 && team.stopwatch().spent()[1] == 0);
}

// Numbers near the end of 32 bits: the next one after the last is 0.
void test_shares() {
  Share share;
  for (uint32_t phase : {5u, 0xffffffffu, 0u}) {
    share.reset(phase - 1);
    for (int chunk = 3; chunk < 6; ++chunk) CHECK(share.take(phase, 3, 6) == chunk);
    CHECK(share.take(phase, 3, 6) == Share::kNone);
    CHECK(share.take(phase + 1, 0, 2) == 0);
    CHECK(share.take(phase, 3, 9) == Share::kNone);  // that phase is over
    CHECK(share.take(phase + 1, 0, 2) == 1);
    CHECK(share.take(phase + 2, 4, 4) == Share::kNone);
    CHECK(share.take(phase + 1, 0, 3) == 2);
  }
}

// Each member keeps to its place; the caller's own mask is what it was when a step is over.
void test_places() {
  struct Masks {
    std::atomic<int> wrong{0};
    static void run(void* context, int, int, int) {
      cpu_set_t mask;
      sched_getaffinity(0, sizeof mask, &mask);
      if (CPU_COUNT(&mask) != 1) ++static_cast<Masks*>(context)->wrong;
    }
  } masks;
  cpu_set_t before, after;
  CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) ++cpu;
  Team team(2, 1, Masks::run, &masks, {{cpu}, {cpu}});
  team.run(std::vector<int>{64});
  CHECK(masks.wrong == 0);
  CHECK(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
}

constexpr int64_t kMillisecond = 1'000'000;

void test_attendance() {
  Attendance attendance(3);
  int64_t now = 0;
  const auto step = [&](double stalled_share) {
    now += 10 * kMillisecond;
    attendance.record(now, 10 * kMillisecond, int64_t(stalled_share * 10 * kMillisecond));
    return attendance.count();
  };
  for (int i = 0; i < 10; ++i) CHECK(step(0.5) == 3);  // a quarter of what two others could do
  const auto held = [&](int before, int after) {
    CHECK(step(1.2) == before);
    CHECK(step(1.2) == before);
    CHECK(step(1.2) == after);
  };
  CHECK(step(1.2) == 3);
  CHECK(step(1.2) == 3);
  CHECK(step(0.0) == 3);  // two alone
  held(3, 2);
  for (int i = 0; i < 4; ++i) CHECK(step(0.0) == 2);
  CHECK(step(0.0) == 3);  // tried again after 50 ms
  held(3, 2);             // in vain: now after 100 ms
  for (int i = 0; i < 9; ++i) CHECK(step(0.0) == 2);
  CHECK(step(0.0) == 3);
  for (int i = 0; i < 20; ++i) CHECK(step(0.0) == 3);
  held(3, 2);  // the try had gone well: again after 50 ms
  for (int i = 0; i < 4; ++i) CHECK(step(0.0) == 2);
  CHECK(step(0.0) == 3);
}

void test_one_is_always_present() {
  Attendance attendance(2);
  for (int64_t now = 1; now < 60; ++now) {
    attendance.record(now * kMillisecond, kMillisecond, kMillisecond);
    CHECK(attendance.count() >= 1);
  }
  CHECK(attendance.count() == 1);
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow threads into a forked child
// A forked child has none of the parent's threads: it starts a team of its own, and ends cleanly.
void test_fork() {
  Work work;
  Team team(2, kPhases, Work::run, &work);
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
    Team team(4, kPhases, Work::run, &work);
    work.steps(team, round % 3);
    work.check(round % 3);
  }
}

}  // namespace

int main() {
  test_sizes();
  test_slow_member();
  test_more_chunks_than_tickets();
  test_stopwatch();
  test_places();
  test_shares();
  test_attendance();
  test_one_is_always_present();
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
