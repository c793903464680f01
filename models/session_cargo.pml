/* What a message may carry besides itself: a bulk (L7), whose bytes follow in chunks between other messages, or a
   lent segment, shared memory that the taker reads in place. Both go from GIVER to TAKER; see session.pml. */

#define TAKER (1 - GIVER)
#define BULK_NUMBER 1
#define CHUNKS 2

#define bulk_begun (BULK && ordinary[GIVER] >= BULK_NUMBER)
#define bulk_open  (bulk_begun && handled[TAKER] >= BULK_NUMBER && bulk_arrived < CHUNKS)

/* Hello's fields. */
inline sample_cargo(s) {
  sample_bulk(s);
  sample_segment(s)
}

inline resume_cargo(s) {
  when(bulk_begun, resume_bulk(s));
  when(SEGMENT && s == GIVER, resume_segment())
}

/* ---- Bulks ---- */

byte bulk_written;              /* giver: chunks written to the current link, or not needed there */
bool bulk_released;             /* giver: the bytes are gone from memory */
byte bulk_arrived;              /* taker: chunks taken */
byte bulk_delivered;            /* taker: times that the whole tensor was handed on */
bool bulk_refused;              /* taker: no longer wanted */
bool bulk_finished_due;         /* taker: BulkFinished is still to be written */

/* Hello lists the unfinished bulk as 1 + offset; not listing it says that it is finished. It is said at the sample, not
   at the adoption: between the two nothing is handled, but the bulk may be refused. */
inline sample_bulk(s) {
  hello_bulk = (s == TAKER && bulk_open && !MUTANT_BULK_NOT_LISTED -> 1 + bulk_arrived : 0);
  when(BULK && s == TAKER && !MUTANT_REFUSAL_LOST_AT_ADOPTION, bulk_finished_due = false)
}

/* A bulk is under way, and the taker has not all of it, nor more than was written. */
inline check_bulk(s) {
  cannot_be = (cannot_be ||
               (hello_bulk > 0 && !(BULK && s == GIVER && bulk_begun && !bulk_released && hello_last >= BULK_NUMBER &&
                                    hello_bulk - 1 < CHUNKS && hello_bulk - 1 <= bulk_written)))
}

inline resume_bulk(s) {
  if
  :: s == TAKER -> when(MUTANT_REFUSAL_LOST_AT_ADOPTION, bulk_finished_due = false)
  :: s == GIVER && hello_last < BULK_NUMBER -> bulk_written = 0
  :: s == GIVER && hello_last >= BULK_NUMBER && hello_bulk > 0 ->
     bulk_written = (MUTANT_BULK_FROM_START -> 0 : hello_bulk - 1)
  :: s == GIVER && hello_last >= BULK_NUMBER && hello_bulk == 0 -> release_bulk()
  fi
}

/* The taker has it all, or wants no more of it. */
inline release_bulk() {
  claim(L7, bulk_arrived == CHUNKS);
  bulk_released = true;
  bulk_written = CHUNKS
}

inline write_chunk(s) {
  d_step {
    s == GIVER && bulk_begun && can_write(s) && written[s] >= BULK_NUMBER && bulk_written < CHUNKS ->
    write(s, current[s], Chunk, bulk_written, 0, 0, 0);
    bulk_written++
  }
}

inline take_chunk(s) {
  if
  :: bulk_refused -> skip
  :: else ->
     claim(L7, number == bulk_arrived && handled[s] >= BULK_NUMBER);
     bulk_arrived++;
     when(bulk_arrived == CHUNKS, bulk_delivered++; bulk_finished_due = true)
  fi
}

/* The call was cancelled, or its function refused. */
inline refuse_bulk(s) {
  d_step {
    s == TAKER && lives(s) && bulk_open ->
    printf("side %d wants no more of the bulk\n", s);
    bulk_refused = true;
    bulk_arrived = CHUNKS;
    bulk_finished_due = !MUTANT_REFUSED_BULK_UNANSWERED
  }
}

inline write_bulk_finished(s) {
  d_step {
    s == TAKER && can_write(s) && bulk_finished_due ->
    bulk_finished_due = false;
    write(s, current[s], BulkFinished, 0, 0, 0, 0)
  }
}

/* ---- Segments ---- */

byte carrier;                   /* giver: number of the message that the segment is lent to, 0 if it is free */
bool passed;                    /* giver: the peer has the descriptor, as far as the current link goes */
bool streaming;                 /* giver: the peer said "no descriptors" */
bool streamed;                  /* giver: the carrier goes as a stream, so that no free will come */
byte reading;                   /* taker: number of the message whose tensor lies in the segment, 0 if none */
bool has_descriptor;            /* taker: the segment is mapped */
bool no_descriptors;            /* taker: passing has failed */
byte free_number;               /* taker: number of the last free */
byte lost_descriptors = LOST_DESCRIPTORS;

/* Hello says whether the taker has the segment, or: */
#define NO_DESCRIPTORS 2

inline sample_segment(s) {
  hello_segment = (SEGMENT && s == TAKER -> (no_descriptors -> NO_DESCRIPTORS : has_descriptor) : 0)
}

inline resume_segment() {
  streaming = (hello_segment == NO_DESCRIPTORS);
  passed = (hello_segment == 1 || (passed && MUTANT_DESCRIPTOR_PASSED_ONCE));
  /* The taker has not handled the carrier, so it never will as a segment: it goes again, as a stream. */
  streamed = (streamed || (streaming && carrier > hello_last));
  end_loan_at_acknowledgement()
}

inline end_loan_at_acknowledgement() {
  if
  :: SEGMENT && carrier > 0 && acknowledged[GIVER] >= carrier &&
     (streamed || MUTANT_SEGMENT_REUSED_AT_ACKNOWLEDGEMENT) -> carrier = 0; streamed = false
  :: else
  fi
}

/* The giver has just made a message: it takes the segment if it can. */
inline lend_segment() {
  if
  :: carrier == 0 && !streaming ->
     claim(Segments, reading == 0);      /* no one reads what is now written over */
     carrier = made[GIVER]
  :: else
  fi
}

inline take_segment(discards) {
  when(descriptor && !(discards && MUTANT_DISCARDED_DESCRIPTOR), has_descriptor = true);
  claim(Segments, has_descriptor || discards);
  claim(Segments, carrier == number && reading == 0);
  reading = number;
  when(discards, free_segment())
}

/* The taker's tensor has died, or the message was discarded. */
inline free_segment() {
  claim(Segments, carrier == reading);   /* it was not written over meanwhile */
  reading = 0;
  if
  :: MUTANT_FREE_UNNUMBERED && can_write(TAKER) -> write(TAKER, current[TAKER], UnnumberedFree, 0, 0, 0, 0)
  :: !MUTANT_FREE_UNNUMBERED && lives(TAKER) && goodbye[TAKER] == 0 ->
     made[TAKER]++;                      /* control: never waits for room */
     free_number = made[TAKER]
  :: else
  fi
}

inline drop_tensor(s) {
  d_step {
    SEGMENT && s == TAKER && reading > 0 && !gone[s] ->
    printf("side %d frees the segment of message %d\n", s, reading);
    free_segment()
  }
}

inline take_free() {
  claim(Segments, carrier > 0 && reading == 0);
  carrier = 0
}

/* MSG_CTRUNC or EMFILE: the message is not handled, the link is re-made without descriptors. */
inline lose_descriptor(s) {
  d_step {
    s == TAKER && lost_descriptors > 0 && current[s] != NO_LINK && towards(s, current[s])?[Message, _, _, true, _] ->
    printf("side %d cannot take the descriptor\n", s);
    lost_descriptors--;
    no_descriptors = true;
    disturb();
    stop_current(s)
  }
}
