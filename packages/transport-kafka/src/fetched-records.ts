import type { FetchedPartition, FetchedRecord } from './kafka-broker.js';

const abortMarker = 0;

/** The records of a fetched partition that count, and where to go on behind all of them. */
export function recordsOf(
  fetched: FetchedPartition,
  position: bigint,
): { readonly records: readonly FetchedRecord[]; readonly next: bigint } {
  const records: FetchedRecord[] = [];
  const aborting = new Set<string>();
  const aborted = [...(fetched.abortedTransactions ?? [])].toSorted((a, b) =>
    Number(BigInt(a.firstOffset) - BigInt(b.firstOffset)),
  );
  let next = position;
  for (const record of fetched.messages) {
    const offset = BigInt(record.offset);
    while (aborted[0] !== undefined && BigInt(aborted[0].firstOffset) <= offset) {
      aborting.add(aborted.shift()?.producerId ?? '');
    }
    const { batchContext } = record;
    const producerId = batchContext?.producerId ?? '';
    if (record.isControlRecord) {
      if (record.key?.readInt16BE(2) === abortMarker) aborting.delete(producerId);
    } else if (offset >= position && !(batchContext?.inTransaction && aborting.has(producerId))) {
      // A batch may begin before the position that was asked for.
      records.push(record);
    }
    // The last records of a batch may be gone by compaction; its end counts all the same.
    const end =
      batchContext === undefined ? offset : BigInt(batchContext.firstOffset) + BigInt(batchContext.lastOffsetDelta);
    if (end + 1n > next) next = end + 1n;
  }
  return { records, next };
}
