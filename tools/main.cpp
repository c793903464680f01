// The program `gradwire`. Knows nothing of torch, so that it starts in milliseconds.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include "gradwire/base/error.h"
#include "gradwire/base/worker_name.h"

#include "tools/run.h"
#include "tools/trace.h"

namespace gradwire::tools {
namespace {

constexpr int wrong_use = 2;
constexpr int most_workers = 10000;

constexpr const char* about_run =
    R"(Each worker finds in its environment RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GRADWIRE_NAME (worker<rank>),
GRADWIRE_STORE (a file in a private folder: no port is opened), GRADWIRE_SECRET_FILE, and GRADWIRE_RESTART (how often
this worker was restarted); Worker::join reads them.

Output comes line by line with the worker's name before it. What is piped in goes to rank 0; the others, and rank 0
when the input is a terminal, read nothing.

SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on. When a worker fails, the others are ended (SIGTERM, then SIGKILL
after --grace), and its exit code is returned, or 128 + the signal that killed it; its error is repeated as the last
line. With --keep-going the others continue, and the exit code is that of the first worker that failed. What a worker
started and left behind in its process group is ended with it. Exit code 2: the workers could not be started.)";

// Anything that is opened must not become stdin, stdout or stderr because that was closed.
void fill_standard_files() {
  int file;
  do file = ::open("/dev/null", O_RDWR);
  while (file >= 0 && file <= STDERR_FILENO);
  if (file >= 0) ::close(file);
}

std::vector<std::string> names_of(int count, std::vector<std::string> given) {
  if (given.empty()) {
    if (count == 0) throw std::runtime_error("how many workers? Say -n 4, or --names with their names");
    for (int rank = 0; rank < count; ++rank) given.push_back("worker" + std::to_string(rank));
    return given;
  }
  if (count != 0 && static_cast<size_t>(count) != given.size())
    throw std::runtime_error("-n " + std::to_string(count) + ", but --names has " + std::to_string(given.size()) +
                             ": leave -n out, or name each worker");
  std::set<std::string> seen;
  for (const std::string& name : given) {
    check_worker_name(name);
    if (!seen.insert(name).second) throw std::runtime_error("--names has \"" + name + "\" twice: each needs its own");
  }
  return given;
}

std::vector<std::string> split_by_comma(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

// CLI11 leaves what it does not know, from the first such word on; but it would go on after "--", so that is hidden
// from it. Before the program it says that the program comes next; after it, it is one of the program's arguments.
constexpr const char* hidden_dashes = "\x01--";

std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (dashes != words.end()) *dashes = hidden_dashes;
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  return words;
}

std::vector<std::string> command_of(std::vector<std::string> left) {
  const bool marked = !left.empty() && left.front() == hidden_dashes;
  if (marked) left.erase(left.begin());
  std::replace(left.begin(), left.end(), std::string(hidden_dashes), std::string("--"));
  if (!marked && !left.empty() && left.front().starts_with("-"))
    throw std::runtime_error(left.front() + ": there is no such option; see gradwire run --help");
  if (left.empty()) throw std::runtime_error("no program to run: gradwire run -n 4 ./program its arguments");
  return left;
}

// Says what comes after the options.
struct RunHelp : CLI::Formatter {
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: gradwire run -n COUNT [OPTIONS] PROGRAM [ARGUMENTS...]\n";
  }
};

int main_of(int argc, char** argv) {
  CLI::App app{"Tensors, references and gradients that cross processes."};
  app.name("gradwire");
  app.set_version_flag("--version", "gradwire " GRADWIRE_VERSION);
  app.require_subcommand(1);

  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("gradwire: ") + error.what() + "; see gradwire --help\n";
  });
  CLI::App& run_command = *app.add_subcommand("run", "Starts the workers of a group on this host and waits for them");
  run_command.prefix_command();
  run_command.formatter(std::make_shared<RunHelp>());
  run_command.footer(about_run);
  int count = 0;
  std::string names;
  RunOptions options;
  double grace = 5;
  run_command.add_option("-n,--workers", count, "How many workers to start")->type_name("COUNT");
  run_command.add_option("--names", names, "Their names, instead of worker0, worker1...: a,b,c")->type_name("NAMES");
  run_command.add_option("--restart", options.restarts, "Restart workers that fail, so often in all")
      ->type_name("COUNT");
  run_command.add_option("--store", options.store, "The file where the workers meet, instead of one of this run's own")
      ->type_name("FILE");
  run_command.add_flag("--keep-going", options.keep_going, "When a worker fails, do not end the others");
  run_command.add_option("--grace", grace, "Seconds between SIGTERM and SIGKILL (5)")->type_name("SECONDS");

  CLI::App& trace_command = *app.add_subcommand(
      "trace", "Makes one file, for https://ui.perfetto.dev, of the traces that GRADWIRE_TRACE=FOLDER made");
  std::string folder, output = "trace.json";
  trace_command.add_option("FOLDER", folder, "Where the workers wrote their traces")->required();
  trace_command.add_option("-o,--output", output, "The file to write (trace.json)")->type_name("FILE");
  bool all_runs = false;
  trace_command.add_flag("--all", all_runs, "All runs that wrote into the folder, not only the newest one");

  try {
    app.parse(words_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : wrong_use;  // --help and --version are such errors
  }
  try {
    if (trace_command.parsed()) {
      const MergedTraces merged = merge_traces(folder, output, all_runs ? Runs::all : Runs::newest);
      std::cout << output << ": " << merged.events << " events of " << merged.files
                << " workers; open it at https://ui.perfetto.dev\n";
      if (merged.earlier_runs > 0)
        std::cout << "left out: " << merged.earlier_files << " workers of " << merged.earlier_runs
                  << " earlier run(s); --all takes them too\n";
      return 0;
    }
    if (run_command.count("-n") > 0 && (count < 1 || count > most_workers))
      throw std::runtime_error("-n " + std::to_string(count) + ": from 1 to " + std::to_string(most_workers) +
                               " workers can be started");
    if (options.restarts < 0) throw std::runtime_error("--restart counts from 0");
    if (!(grace >= 0 && grace <= 1e6)) throw std::runtime_error("--grace is a number of seconds, 0 or more");
    options.grace = std::chrono::milliseconds(std::llround(grace * 1000));
    // A worker may change its directory.
    if (!options.store.empty()) options.store = std::filesystem::absolute(options.store);
    options.names = names_of(count, split_by_comma(names));
    options.command = command_of(run_command.remaining());
    return run(options);
  } catch (const std::runtime_error& error) {
    std::cerr << "gradwire: " << error.what() << std::endl;
    return wrong_use;
  }
}

}  // namespace
}  // namespace gradwire::tools

int main(int argc, char** argv) {
  gradwire::tools::fill_standard_files();
  return gradwire::tools::main_of(argc, argv);
}
