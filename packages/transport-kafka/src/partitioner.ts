/**
 * The hash by which Java's producer spreads keys over partitions, so that one key is in one partition whoever sends it.
 * Source: `org.apache.kafka.common.utils.Utils.murmur2`.
 */
export function murmur2(data: Buffer): number {
  const multiplier = 0x5bd1e995;
  const { length } = data;
  let hash = 0x9747b28c ^ length;
  const whole = length - (length % 4);
  for (let at = 0; at < whole; at += 4) {
    let word = Math.imul(data.readInt32LE(at), multiplier);
    word = Math.imul(word ^ (word >>> 24), multiplier);
    hash = Math.imul(hash, multiplier) ^ word;
  }
  const rest = length - whole;
  if (rest > 0) {
    for (let byte = rest - 1; byte >= 0; byte -= 1) hash ^= (data[whole + byte] ?? 0) << (8 * byte);
    hash = Math.imul(hash, multiplier);
  }
  hash = Math.imul(hash ^ (hash >>> 13), multiplier);
  return hash ^ (hash >>> 15);
}

/** The partition of a key: as Java's default partitioner. */
export function partitionOf(key: Buffer, partitions: number): number {
  return (murmur2(key) & 0x7fffffff) % partitions;
}
