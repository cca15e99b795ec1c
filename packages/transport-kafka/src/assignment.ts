/** Partitions by topic. */
export type Assignment = Readonly<Record<string, readonly number[]>>;

export interface Member {
  readonly memberId: string;
  readonly topics: readonly string[];
  /** What it had before the group gathered again. */
  readonly owned: Assignment;
}

/**
 * Spreads partitions evenly over the members that want their topic, and leaves each where it was as far as that allows: a
 * partition that moves costs its new owner a start.
 */
export function assign(members: readonly Member[], partitions: ReadonlyMap<string, number>): Map<string, Assignment> {
  const places = [...members]
    .toSorted((a, b) => (a.memberId < b.memberId ? -1 : 1))
    .map((member) => ({ member, held: new Map<string, number[]>(), count: 0 }));
  for (const [topic, count] of [...partitions].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const candidates = places.filter(({ member }) => member.topics.includes(topic));
    if (candidates.length === 0) continue;
    const give = (place: (typeof places)[number], partition: number): void => {
      place.held.set(topic, [...(place.held.get(topic) ?? []), partition]);
      place.count += 1;
    };
    const free = new Set(Array.from({ length: count }, (_, partition) => partition));
    const fair = Math.floor(count / candidates.length);
    let extra = count % candidates.length;
    for (const place of candidates) {
      // After a split brain two may claim one; the first has it.
      const owned = (place.member.owned[topic] ?? []).filter((partition) => free.has(partition));
      const more = owned.length > fair && extra > 0 ? 1 : 0;
      extra -= more;
      for (const partition of owned.slice(0, fair + more)) {
        free.delete(partition);
        give(place, partition);
      }
    }
    for (const partition of free) {
      const emptiest = candidates.reduce((least, place) => {
        const [a, b] = [place.held.get(topic)?.length ?? 0, least.held.get(topic)?.length ?? 0];
        return a < b || (a === b && place.count < least.count) ? place : least;
      });
      give(emptiest, partition);
    }
  }
  return new Map(places.map(({ member, held }) => [member.memberId, Object.fromEntries(held)]));
}
