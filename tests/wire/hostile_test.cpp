// Every decoder against bytes that no encoder wrote: whatever comes, it ends in a value or in a MalformedError, and
// memory stays within a small multiple of what came. tests/fuzz goes on where this stops.
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>
#include <random>

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include "gradwire/wire/codec.h"

#include "tests/wire/round_trip.h"

namespace {

// What this thread has allocated and not freed, and the most it ever had, since a Meter was made.
thread_local bool metered = false;
thread_local size_t held = 0;
thread_local size_t most_held = 0;

class Meter {
 public:
  Meter() {
    held = most_held = 0;
    metered = true;
  }
  ~Meter() { metered = false; }
  size_t most() const { return most_held; }
};

}  // namespace

void* operator new(size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  if (metered) {
    held += malloc_usable_size(memory);
    most_held = std::max(most_held, held);
  }
  return memory;
}

void operator delete(void* memory) noexcept {
  if (metered && memory != nullptr) {
    held -= std::min(held, malloc_usable_size(memory));
  }
  std::free(memory);
}

void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace gradwire::wire {
namespace {

enum class Colour : uint8_t { red, green };

struct Sample {
  at::Tensor x;
  std::optional<std::string> label;
  std::vector<std::pair<int, double>> points;
};

using Everything =
    std::tuple<bool, Colour, std::vector<bool>, std::vector<double>, std::map<std::string, std::vector<int>>,
               std::unordered_map<int, std::string>, std::variant<std::monostate, int, Sample>, std::vector<at::Tensor>,
               std::vector<std::monostate>, std::vector<std::array<double, 100>>, Sample, c10::IValue>;

Everything everything() {
  Sample sample{at::ones({2}), "label", {{1, 2.0}, {3, 4.0}}};
  return {true,
          Colour::green,
          {true, false},
          {1, 2, 3},
          {{"a", {1, 2}}, {"b", {}}},
          {{1, "one"}, {2, "two"}},
          sample,
          {at::ones({1}), at::Tensor()},
          std::vector<std::monostate>(3),
          std::vector<std::array<double, 100>>(1),
          sample,
          3};
}

c10::IValue nested_value() {
  c10::Dict<std::string, c10::List<int64_t>> dict;
  dict.insert("numbers", c10::List<int64_t>({1, 2, 3}));
  c10::impl::GenericList mixed(c10::AnyType::get());
  mixed.push_back(dict);
  mixed.push_back(c10::List<std::optional<double>>({std::nullopt, 2.5}));
  mixed.push_back(c10::List<std::tuple<int64_t, bool>>({std::tuple<int64_t, bool>(1, true)}));
  return c10::ivalue::Tuple::create({mixed, "text", c10::Device("cpu"), at::ones({1}), c10::complex<double>(1, 2)});
}

// Changes bytes the way a broken or hostile peer would.
class Tamperer {
 public:
  explicit Tamperer(unsigned seed) : random_(seed) {}

  std::string tamper(std::string bytes) {
    for (size_t changes = 1 + pick(3); changes > 0; --changes) {
      change(bytes);
    }
    return bytes;
  }

 private:
  size_t pick(size_t end) { return end == 0 ? 0 : random_() % end; }

  void change(std::string& bytes) {
    size_t position = pick(bytes.size());
    switch (pick(6)) {
      case 0:
        if (!bytes.empty()) {
          bytes[position] = static_cast<char>(bytes[position] ^ (1 << pick(8)));
        }
        break;
      case 1:
        bytes.resize(position);
        break;
      case 2:
        if (!bytes.empty()) {
          bytes[position] = static_cast<char>(random_());
        }
        break;
      case 3: {  // a length like those that overflow something
        uint64_t numbers[] = {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 40, uint64_t{1} << 32, 1000, 1};
        const char* number = reinterpret_cast<const char*>(&numbers[pick(6)]);
        bytes.replace(position, std::min<size_t>(8, bytes.size() - position), number, 8);
        break;
      }
      case 4:
        bytes.insert(position, bytes.substr(pick(bytes.size()), pick(32)));
        break;
      default:
        for (size_t i = pick(40); i > 0; --i) {
          bytes.push_back(static_cast<char>(random_()));
        }
    }
  }

  std::mt19937 random_;
};

// `decode` may throw MalformedError and nothing else.
void expect_survival(const std::string& seed_bytes, const std::function<void(std::string)>& decode) {
  constexpr size_t factor = 300;       // a c10 type or dict entry of some hundred bytes for one byte that came
  constexpr size_t overhead = 200000;  // for the texts of errors and what torch sets up when first used
  Tamperer tamperer(1);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = tamperer.tamper(round % 50 == 0 ? std::string() : seed_bytes);
    size_t size = bytes.size();
    Meter meter;
    try {
      decode(std::move(bytes));
    } catch (const MalformedError&) {
      ++refused;
    }
    ASSERT_LT(meter.most(), size * factor + overhead) << "round " << round;
  }
  EXPECT_GT(refused, 1000);
}

TEST(Hostile, C21_ValuesDoNotHarmTheDecoder) {
  Payload seed = encode(everything());
  EXPECT_EQ(std::get<Sample>(decode<Everything>(Payload(seed))).points.size(), 2);
  expect_survival(seed.bytes,
                  [&](std::string bytes) { (void)decode<Everything>(Payload{std::move(bytes), seed.tensors}); });
}

TEST(Hostile, C21_IValuesDoNotHarmTheDecoder) {
  Payload seed = encode(nested_value());
  expect_survival(seed.bytes,
                  [&](std::string bytes) { (void)decode<c10::IValue>(Payload{std::move(bytes), seed.tensors}); });
}

TEST(Hostile, C21_TensorsDoNotHarmTheDecoderOrTorch) {
  for (const auto& tensor : {at::ones({2, 3}), at::eye(4).to_sparse(), at::ones({2, 3, 2}).to_sparse(1),
                             at::eye(4).to_sparse_csr(), at::ones({2, 2, 3}, at::kBool).to_sparse_csr()}) {
    FlatTensor flat = wire::flatten(tensor);
    ByteWriter writer;
    encode(writer, flat.description);
    size_t description_size = writer.size();
    for (size_t i = 0; i < flat.parts.size(); ++i) {
      std::string part(flat.description.parts[i].byte_count, '\0');
      copy_part(flat.parts[i], part.data());
      writer.put_bytes(part);
    }
    ASSERT_GT(writer.size(), description_size);
    expect_survival(writer.bytes(), [&](const std::string& bytes) {
      ByteReader reader(bytes);
      TensorDescription description = decode_description(reader);
      // A link has its limit; here it is what came.
      for (const auto& part : description.parts) {
        if (part.byte_count > bytes.size()) {
          return;
        }
      }
      auto memory = memory_for(description);
      for (size_t i = 0; i < memory.size(); ++i) {
        auto part = reader.take_bytes(description.parts[i].byte_count);
        std::copy(part.begin(), part.end(), static_cast<char*>(memory[i].get()));
      }
      at::Tensor arrived = assemble(description, std::move(memory));
      bool small = std::ranges::all_of(description.sizes, [](int64_t size) { return size < 50; });
      if (arrived.defined() && arrived.dim() < 4 && small && description.dtype == at::kFloat) {
        (void)arrived.to_dense().sum().item<float>();
      }
    });
  }
}

TEST(Hostile, C21_LengthsAllocateNothingBeforeTheyAreChecked) {
  auto attack = [](auto type) {
    using T = typename decltype(type)::type;
    for (int shift : {16, 24, 32, 48, 62}) {
      ByteWriter writer;
      writer.put(uint64_t{1} << shift);
      writer.put_bytes(std::string(1000, '\0'));
      Meter meter;
      EXPECT_THROW((void)decode<T>(Payload{writer.take(), {}}), MalformedError);
      EXPECT_LT(meter.most(), 100000) << Codec<T>::signature();
    }
  };
  attack(std::type_identity<std::string>());
  attack(std::type_identity<std::vector<char>>());
  attack(std::type_identity<std::vector<bool>>());
  attack(std::type_identity<std::vector<std::string>>());
  attack(std::type_identity<std::vector<std::array<double, 1000>>>());
  attack(std::type_identity<std::vector<std::monostate>>());
  attack(std::type_identity<std::vector<at::Tensor>>());
  attack(std::type_identity<std::map<int, int>>());
  attack(std::type_identity<std::unordered_map<int, int>>());
}

}  // namespace
}  // namespace gradwire::wire
