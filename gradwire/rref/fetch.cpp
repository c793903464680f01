#include "gradwire/rref/fetch.h"

#include <fmt/format.h>

namespace gradwire {
namespace {

constexpr const char* fetch_name = "RRef.fetch";

}  // namespace

Target fetch_target() { return {Target::Kind::function, fetch_name, "fetch"}; }

void with_referent(const std::shared_ptr<Reference>& reference, const std::shared_ptr<Reply>& reply,
                   std::function<void(const Kept&)> then) {
  if (!reference->is_owner())
    throw InvalidArgumentError(fmt::format("{} is not of this worker", to_string(*reference)));
  const std::shared_ptr<Referent>& referent = reference->referent();
  // The handle keeps the value until it was used (a waiting fetch keeps the entry).
  const auto use = [reference, reply, then = std::move(then)] {
    const Kept* kept = reference->referent()->kept();
    if (kept == nullptr) return reply->fail_as_before(reference->referent()->error());
    try {
      then(*kept);
    } catch (const Error& error) {
      reply->refuse(error);
    }
  };
  if (referent->ready()) return use();
  referent->when_ready([use, surroundings = CapturedSurroundings::capture(), runtime = reply->runtime()] {
    runtime->submit([use, surroundings] { surroundings.run(use); });
  });
}

void add_fetch(Registry& registry) {
  registry.add_entry(
      fetch_name,
      {.signature = "fetch", .body = [](wire::Payload&& payload, const std::shared_ptr<Reply>& reply) {
         std::shared_ptr<Reference> reference;
         std::string expected;
         detail::decode_arguments([&] {
           wire::Decoder decoder(std::move(payload));
           reference = take_reference(decoder);
           expected = decoder.take<std::string>();
           decoder.expect_end();
         });
         with_referent(reference, reply, [reference, reply, expected](const Kept& kept) {
           if (kept.type->name != expected)
             throw InvalidArgumentError(fmt::format("{} refers to a {}, and was fetched as a {}", to_string(*reference),
                                                    kept.type->name, expected));
           if (kept.type->encode == nullptr)
             throw InvalidArgumentError(fmt::format("{} refers to a {}, which cannot travel: call its methods",
                                                    to_string(*reference), expected));
           if (reply->keeps()) return reply->keep(kept);
           try {
             reply->give(kept.value ? kept.type->encode(kept.value.get()) : wire::Payload{});
           } catch (...) {
             reply->fail(std::current_exception());
           }
         });
       }});
}

}  // namespace gradwire
