/* Words that the models share. */

/* Every assertion is named by the invariant or rule that it states (a number above 0); spin prints the name with the
   failure. -DONLY=rule looks for failures of that rule alone, whatever else goes wrong before. */
#ifndef ONLY
#define claim(rule, condition) assert((rule) && (condition))
#else
#define claim(rule, condition) assert((rule) != ONLY || (condition))
#endif

#define when(condition, ...) \
  if                         \
  ::condition->__VA_ARGS__ ::else fi
#define unless_mutant(mutant, ...) \
  if                               \
  ::MUTANT_##mutant->skip ::else->__VA_ARGS__ fi

/* Sets of small numbers are bytes. */
#define bit(number) (1 << (number))
#define has(set, number) (((set) >> (number)) & 1)
#define add(set, number) set = set | bit(number)
#define remove(set, number) set = set & ~bit(number)
