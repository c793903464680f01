// A recurrent language model split over two workers: one has the embeddings and the decoder, the other the recurrent
// layer, whose state stays there between two pieces of text.
// Run: gradwire run -n 3 build/examples/language_model
#include <iomanip>
#include <iostream>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

namespace {

constexpr int letters = 128, width = 48, length = 32, streams = 8;

// Letters to vectors, and vectors to what the next letter may be.
struct Ends : torch::nn::Module {
  Ends() {
    torch::manual_seed(1);
    embedding = register_module("embedding", torch::nn::Embedding(letters, width));
    decoder = register_module("decoder", torch::nn::Linear(width, letters));
  }
  torch::Tensor encode(const torch::Tensor& text) { return embedding->forward(text); }
  torch::Tensor decode(const torch::Tensor& hidden) { return decoder->forward(hidden); }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear decoder{nullptr};
};

struct Recurrent : torch::nn::Module {
  Recurrent() {
    torch::manual_seed(2);
    layer = register_module("layer", torch::nn::GRU(torch::nn::GRUOptions(width, width)));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    auto [out, next] = layer->forward(x, state);
    state = next.detach();  // gradients end at the piece's border
    return out;
  }
  void forget() { state = torch::Tensor(); }
  torch::nn::GRU layer{nullptr};
  torch::Tensor state;
};

// The numbers in words, one after the other: length + 1 letters of each of some streams.
torch::Tensor piece(int number) {
  static const std::vector<int64_t> text = [] {
    const char* words[] = {"zero ", "one ", "two ", "three ", "four ", "five ", "six ", "seven ", "eight ", "nine "};
    std::vector<int64_t> all;
    for (int i = 0; i < 100; ++i)
      for (const char* word : {words[i / 10], words[i % 10], "and "})
        for (const char* letter = word; *letter != 0; ++letter) all.push_back(*letter);
    return all;
  }();
  std::vector<torch::Tensor> columns;
  for (int stream = 0; stream < streams; ++stream) {
    std::vector<int64_t> letters_of;
    for (int i = 0; i <= length; ++i) letters_of.push_back(text[(stream * 149 + number * length + i) % text.size()]);
    columns.push_back(torch::tensor(letters_of));
  }
  return torch::stack(columns, 1);
}

torch::Tensor loss_of(const torch::Tensor& guessed, const torch::Tensor& text) {
  return torch::cross_entropy_loss(guessed.flatten(0, 1), text.slice(0, 1).flatten());
}

}  // namespace

int main() {
  torch::set_num_threads(1);  // several processes share the machine
  gradwire::Registry registry;
  registry.add_type<Ends>("Ends").constructor<>().method("encode", &Ends::encode).method("decode", &Ends::decode);
  registry.add_type<Recurrent>("Recurrent")
      .constructor<>()
      .method("forward", &Recurrent::forward)
      .method("forget", &Recurrent::forget);
  auto worker = gradwire::Worker::join(registry);
  if (worker->rank() == 0) {
    auto ends = worker->peer(1).make<Ends>();
    auto recurrent = worker->peer(2).make<Recurrent>();
    std::vector<gradwire::RRef<torch::Tensor>> parameters = gradwire::nn::parameters({ends, recurrent}).get();
    gradwire::optim::DistributedOptimizer<torch::optim::Adam> optimizer(parameters, torch::optim::AdamOptions(0.01));

    Ends ends_here;
    Recurrent recurrent_here;
    std::vector<torch::Tensor> parameters_here = ends_here.parameters();
    for (const torch::Tensor& parameter : recurrent_here.parameters()) parameters_here.push_back(parameter);
    torch::optim::Adam optimizer_here(parameters_here, torch::optim::AdamOptions(0.01));

    double difference = 0, last = 0;
    std::cout << std::fixed << std::setprecision(1);
    for (int step = 0; step < 150; ++step) {
      const torch::Tensor text = piece(step);
      gradwire::autograd::Context context(*worker);
      const torch::Tensor x = ends.call(&Ends::encode, text.slice(0, 0, length)).get();
      const torch::Tensor hidden = recurrent.call(&Recurrent::forward, x).get();
      const torch::Tensor loss = loss_of(ends.call(&Ends::decode, hidden).get(), text);
      context.backward(loss);
      optimizer.step(context, {.max_norm = 1.0});
      last = std::exp(loss.item<double>());
      if (step % 50 == 0) std::cout << "step " << step << ": perplexity " << last << '\n';

      const torch::Tensor out = recurrent_here.forward(ends_here.encode(text.slice(0, 0, length)));
      const torch::Tensor loss_here = loss_of(ends_here.decode(out), text);
      optimizer_here.zero_grad();
      loss_here.backward();
      torch::nn::utils::clip_grad_norm_(parameters_here, 1.0);
      optimizer_here.step();
      difference = std::max(difference, std::abs((loss - loss_here).item<double>()));
    }
    std::cout << "perplexity " << (last < 2 ? "below 2" : "too high") << '\n'
              << "losses: " << (difference < 1e-3 ? "as in one process" : "not as in one process") << '\n';
  }
  worker->leave();
}
