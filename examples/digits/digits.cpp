// Learns to read handwritten digits with a model that is split over four processes: a trainer, a table of embeddings,
// and the two halves of a network. Then the same in one process, to compare.
//
// Run: gradwire run -n 4 --names trainer,table,lower,upper build/examples/digits
//      gradwire run -n 4 --names trainer,table,lower,upper --restart 1 build/examples/digits --kill
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>

#include "gradwire/gradwire.h"

#include "chart.h"
#include "data.h"
#include "model.h"

namespace digits {
namespace {

using namespace std::chrono_literals;
using gradwire::nn::RemoteModule;
using torch::optim::Adagrad;
using torch::optim::AdagradOptions;
using torch::optim::Adam;
using torch::optim::AdamOptions;

const AdamOptions network_options(2e-3);
const AdagradOptions table_options(1e-2);
constexpr int batch_size = 32;

struct Settings {
  int epochs = 15;
  bool kill = false;
  std::string data = "examples/digits/data/digits.csv";
  std::string out = "build/demo";
};

// Ends the process that runs it, as a failing machine would.
inline constexpr gradwire::Function<void()> crash{"crash"};
inline constexpr gradwire::Function<void()> ping{"ping"};

gradwire::Registry registry() {
  gradwire::Registry registry;
  registry.add_type<Table>("Table").constructor<int>().method("forward", &Table::forward);
  registry.add_type<Half>("Half").constructor<int, int, int>().method("forward", &Half::forward);
  registry.add(crash, [] { ::kill(getpid(), SIGKILL); });
  registry.add(ping, [] {});
  return registry;
}

// Each part in the process of its name, and where its parameters are stepped.
class SplitModel {
 public:
  explicit SplitModel(gradwire::Worker& worker)
      : worker_(worker),
        table_(worker.peer("table"), 1),
        lower_(worker.peer("lower"), pixels * columns, width, 2),
        upper_(worker.peer("upper"), width, 10, 3),
        table_optimizer_(table_.parameters().get(), table_options),
        network_optimizer_(gradwire::nn::parameters({lower_, upper_}).get(), network_options) {}

  torch::Tensor forward(const Images& images) const {
    return upper_.forward(lower_.forward(table_.forward(images.rows)));
  }
  double step(const Images& batch) {
    gradwire::autograd::Context context(worker_);
    const torch::Tensor loss = torch::cross_entropy_loss(forward(batch), batch.labels);
    context.backward(loss);
    network_optimizer_.step(context);
    table_optimizer_.step(context);
    return loss.item<double>();
  }
  gradwire::autograd::StepGraph graph(const Images& batch) const {
    gradwire::autograd::Context context(worker_);
    const torch::Tensor loss = torch::cross_entropy_loss(forward(batch), batch.labels);
    return context.graph({loss});
  }

  gradwire::nn::Parts parts() const { return {{"table", table_}, {"lower", lower_}, {"upper", upper_}}; }
  void save(const std::string& folder) const {
    gradwire::nn::save(parts(), folder + "/model.pt");
    gradwire::optim::save(table_optimizer_.state(), folder + "/table_optimizer.pt");
    gradwire::optim::save(network_optimizer_.state(), folder + "/network_optimizer.pt");
  }
  void load(const std::string& folder) {
    gradwire::nn::load(parts(), folder + "/model.pt");
    table_optimizer_.load_state(gradwire::optim::load_optimizer_state(folder + "/table_optimizer.pt"));
    network_optimizer_.load_state(gradwire::optim::load_optimizer_state(folder + "/network_optimizer.pt"));
  }

 private:
  gradwire::Worker& worker_;
  RemoteModule<Table> table_;
  RemoteModule<Half> lower_, upper_;
  gradwire::optim::DistributedOptimizer<Adagrad> table_optimizer_;
  gradwire::optim::DistributedOptimizer<Adam> network_optimizer_;
};

// The same, in one process, with torch alone.
class WholeModel {
 public:
  double step(const Images& batch) {
    const torch::Tensor x = lower_->forward(table_->forward(batch.rows));
    const torch::Tensor loss = torch::cross_entropy_loss(upper_->forward(x), batch.labels);
    table_optimizer_.zero_grad();
    network_optimizer_.zero_grad();
    loss.backward();
    network_optimizer_.step();
    table_optimizer_.step();
    return loss.item<double>();
  }

 private:
  std::vector<torch::Tensor> parameters_of_both_halves() const {
    std::vector<torch::Tensor> all = lower_->parameters();
    for (const torch::Tensor& parameter : upper_->parameters()) all.push_back(parameter);
    return all;
  }
  std::shared_ptr<Table> table_ = std::make_shared<Table>(1);
  std::shared_ptr<Half> lower_ = std::make_shared<Half>(pixels * columns, width, 2);
  std::shared_ptr<Half> upper_ = std::make_shared<Half>(width, 10, 3);
  Adagrad table_optimizer_{table_->parameters(), table_options};
  Adam network_optimizer_{parameters_of_both_halves(), network_options};
};

double accuracy(const SplitModel& model, const Images& images) {
  const torch::NoGradGuard guard;
  return model.forward(images).argmax(1).eq(images.labels).to(torch::kDouble).mean().item<double>();
}

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

std::string bar(int done, int all) {
  constexpr int length = 20;
  const int full = length * done / all;
  return "[" + std::string(full, '#') + std::string(length - full, '.') + "]";
}

// After a failure: until everyone answers again.
void wait_for_all(gradwire::Worker& worker) {
  for (const char* name : {"table", "lower", "upper"}) {
    for (int attempt = 0;; ++attempt) {
      try {
        worker.peer(name).with_timeout(1s).call(ping).get();
        break;
      } catch (const gradwire::Error&) {
        if (attempt == 300) throw;
        std::this_thread::sleep_for(100ms);
      }
    }
  }
}

struct Progress {
  int epoch = 0;
  std::vector<double> losses;
};

void train_epoch(SplitModel& model, const Data& data, const Settings& settings, Progress& progress,
                 const std::function<void(size_t step)>& before_step) {
  const auto began = std::chrono::steady_clock::now();
  const std::vector<Images> all = batches(data.training, batch_size, progress.epoch);
  double sum = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    before_step(i);
    progress.losses.push_back(model.step(all[i]));
    sum += progress.losses.back();
  }
  const double seconds = seconds_since(began);
  ++progress.epoch;
  std::cout << "epoch " << std::setw(2) << progress.epoch << '/' << settings.epochs << ' '
            << bar(progress.epoch, settings.epochs) << std::fixed << std::setprecision(4) << " loss "
            << sum / static_cast<double>(all.size()) << std::setprecision(1) << "  test accuracy "
            << 100 * accuracy(model, data.test) << "%  " << std::setprecision(0)
            << static_cast<double>(all.size()) / seconds << " steps/s\n"
            << std::flush;
}

int train(gradwire::Worker& worker, const Settings& settings) {
  const Data data = read(settings.data);
  const std::string checkpoint = settings.out + "/checkpoint";
  std::filesystem::create_directories(checkpoint);
  std::cout << data.training.labels.size(0) << " images to learn from, " << data.test.labels.size(0)
            << " to test with; the model is split over the processes table, lower and upper\n";

  auto model = std::make_unique<SplitModel>(worker);
  model->save(checkpoint);
  Progress progress, saved;
  bool may_kill = settings.kill;
  const auto kill_once = [&](size_t step) {
    if (!may_kill || progress.epoch != settings.epochs / 2 || step != 10) return;
    may_kill = false;
    std::cout << "killing the process \"upper\" in the middle of epoch " << progress.epoch + 1 << '\n' << std::flush;
    (void)worker.peer("upper").call(crash);
  };
  const auto began = std::chrono::steady_clock::now();
  while (progress.epoch < settings.epochs) {
    try {
      train_epoch(*model, data, settings, progress, kill_once);
      model->save(checkpoint);
      saved = progress;
    } catch (const gradwire::OwnerGoneError& error) {
      if (!settings.kill) throw;
      std::cout << "OwnerGoneError: " << error.what() << '\n'
                << "waiting for it to be started again, then going on from the checkpoint of epoch " << saved.epoch
                << '\n'
                << std::flush;
      wait_for_all(worker);
      model = std::make_unique<SplitModel>(worker);
      model->load(checkpoint);
      progress = saved;
    }
  }
  const double split_seconds = seconds_since(began);
  const double reached = accuracy(*model, data.test);

  const auto began_whole = std::chrono::steady_clock::now();
  WholeModel whole;
  std::vector<double> losses;
  for (int epoch = 0; epoch < settings.epochs; ++epoch)
    for (const Images& batch : batches(data.training, batch_size, epoch)) losses.push_back(whole.step(batch));
  double difference = 0;
  for (size_t i = 0; i < losses.size(); ++i)
    difference = std::max(difference, std::abs(losses[i] - progress.losses[i]));

  std::cout << std::fixed << std::setprecision(1) << "trained in " << split_seconds << " s over 4 processes, and in "
            << seconds_since(began_whole) << " s in one; the " << losses.size() << " losses differ by at most "
            << std::setprecision(7) << difference << '\n'
            << "test accuracy: " << std::setprecision(1) << 100 * reached << "%\n";

  std::ofstream(settings.out + "/step.svg") << model->graph(batches(data.training, batch_size, 0).front()).svg();
  draw(settings.out + "/loss.svg", "Loss of each step, the model split over 4 processes and in one",
       {{"4 processes", "#1f77b4", progress.losses, false}, {"one process", "#ff7f0e", losses, true}});
  std::cout << "the gradients' way through one step: " << settings.out << "/step.svg\n"
            << "the loss curves: " << settings.out << "/loss.svg\n"
            << "the trained model, for torch.load: " << checkpoint << "/model.pt\n";
  return reached >= 0.97 && difference < 1e-3 ? 0 : 1;
}

}  // namespace
}  // namespace digits

int main(int count, char** arguments) {
  digits::Settings settings;
  const std::vector<std::string> given(arguments + 1, arguments + count);
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] == "--kill")
      settings.kill = true;
    else if (given[i] == "--epochs" && i + 1 < given.size())
      settings.epochs = std::stoi(given[++i]);
    else if (given[i] == "--data" && i + 1 < given.size())
      settings.data = given[++i];
    else if (given[i] == "--out" && i + 1 < given.size())
      settings.out = given[++i];
    else {
      std::cerr << "usage: digits [--kill] [--epochs N] [--data FILE] [--out FOLDER]\n";
      return 2;
    }
  }
  torch::set_num_threads(1);  // four processes share the machine
  auto worker = gradwire::Worker::join(digits::registry());
  int result = 0;
  if (worker->name() == "trainer") result = digits::train(*worker, settings);
  worker->leave();
  return result;
}
